// Renders the Helm chart for tests, with the template engine and the functions that Helm uses, in a program that is compiled once.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Validator } from "@cfworker/json-schema";
import { parse, parseAllDocuments } from "yaml";

export const CHART: string = fileURLToPath(new URL("../../deploy/helm/glovebox", import.meta.url));
const SOURCE = fileURLToPath(new URL("render/render.go", import.meta.url));
/** Where Debian's packages of Go libraries are. */
const LIBRARIES = "/usr/share/gocode";

/** Whether the compiler and the libraries are installed. Tests that need them are skipped otherwise, and say so. */
export const canRender: boolean = (() => {
  try {
    execFileSync("go", ["version"], { stdio: "ignore" });
    readFileSync(join(LIBRARIES, "src/github.com/Masterminds/sprig/functions.go"));
    readFileSync(join(LIBRARIES, "src/sigs.k8s.io/yaml/yaml.go"));
    return true;
  } catch {
    const packages = "golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev";
    console.warn(`Go is not installed: the tests of the Helm chart are skipped (apt-get install ${packages})`);
    return false;
  }
})();

/** A Kubernetes object as the chart renders it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own form, which the test checks against the schemas of Kubernetes.
  readonly spec?: any;
  readonly automountServiceAccountToken?: boolean;
}

export class ChartRenderer implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "glovebox-chart-"));
  readonly #program = join(this.#folder, "render");
  readonly #schema = new Validator(JSON.parse(readFileSync(join(CHART, "values.schema.json"), "utf8")), "7", false);

  constructor() {
    execFileSync("go", ["build", "-o", this.#program, SOURCE], {
      env: { ...process.env, GO111MODULE: "off", GOPATH: LIBRARIES, GOCACHE: join(this.#folder, "cache"), GOFLAGS: "" },
    });
  }

  /** Returns what the schema of the values says against them, as Helm does before it renders. */
  problemsOf(values: object): readonly string[] {
    const defaults = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as object;
    const { errors } = this.#schema.validate(merge(defaults, values));
    return errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
  }

  /** Returns the objects. Throws the error of a template. */
  render(values: object): readonly Manifest[] {
    const text = this.#run(values).replace(/---\n# Source: NOTES\.txt\n[\s\S]*?(?=\n---\n# Source)/, "");
    return parseAllDocuments(text).flatMap((document) => {
      const manifest = document.toJS({ merge: true }) as Manifest | null;
      return manifest ?? [];
    });
  }

  #run(values: object): string {
    const path = join(this.#folder, "values.json");
    writeFileSync(path, JSON.stringify(values));
    const { status, stdout, stderr } = spawnSync(this.#program, [CHART, "demo", "tools", path], { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    return stdout;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function merge(base: object, given: object): object {
  const merged: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(given)) {
    const current = merged[name];
    merged[name] = isMap(current) && isMap(value) ? merge(current, value) : value;
  }
  return merged;
}
