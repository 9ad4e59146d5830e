// The harness (Glovebox's own Python) as text. It is loaded into the interpreter once, before its snapshot is taken.
import ctx from "./ctx.py";
import definition from "./definition.py";
import errors from "./errors.py";
import installer from "./install.py";
import preload from "./preload.py";
import run from "./run.py";
import values from "./values.py";
import wheels from "./wheels.py";

export const HARNESS: {
  readonly installer: string;
  readonly preload: string;
  readonly modules: readonly (readonly [string, string])[];
} = {
  installer,
  preload,
  /** In import order. */
  modules: [
    ["_glovebox.values", values],
    ["glovebox", ctx],
    ["_glovebox.definition", definition],
    ["_glovebox.errors", errors],
    ["_glovebox.wheels", wheels],
    ["_glovebox.run", run],
  ],
};
