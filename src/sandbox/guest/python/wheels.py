"""Imports modules from the host's wheels. A wheel is found by its top-level names, and unpacked at the first import."""

import importlib
import importlib.machinery
import io
import json
import sys
import zipfile

_FOLDER = "/lib/wheels"


class _Wheels:
    """The last import finder, for modules that no other finder has."""

    def __init__(self):
        self._read = None
        self._packed = None

    def open(self, read):
        self._read = read

    def _by_module(self):
        if self._packed is None:
            listed = self._read("wheels")
            self._packed = {}
            for name in [] if listed is None else json.loads(listed.to_bytes()):
                archive = zipfile.ZipFile(io.BytesIO(self._read(f"wheel:{name}").to_bytes()))
                for path in archive.namelist():
                    self._packed.setdefault(path.partition("/")[0].partition(".")[0], archive)
        return self._packed

    def find_spec(self, name, path=None, target=None):
        if path is not None or self._read is None:
            return None
        archive = self._by_module().get(name)
        if archive is None:
            return None
        self._packed = {each: one for each, one in self._packed.items() if one is not archive}
        archive.extractall(_FOLDER)
        if _FOLDER not in sys.path:
            sys.path.append(_FOLDER)
        importlib.invalidate_caches()
        return importlib.machinery.PathFinder.find_spec(name, None, target)


wheels = _Wheels()
sys.meta_path.append(wheels)
