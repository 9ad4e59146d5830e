# Installs the modules of the harness. Runs once, before the snapshot is taken. Its last value is a function of their sources.


def install(text):
    import json
    import sys
    import types

    package = types.ModuleType("_glovebox")
    package.__path__ = []
    sys.modules["_glovebox"] = package
    for name, source in json.loads(text):
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        if name.startswith("_glovebox."):
            setattr(package, name.removeprefix("_glovebox."), module)


install
