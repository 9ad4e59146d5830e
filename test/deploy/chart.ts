// Renders the Helm chart for tests, with the template engine and the functions that Helm uses, in a program that is compiled once.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Validator } from "@cfworker/json-schema";
import { Deployment, StatefulSet } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { Ingress, NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { Service, ServiceAccount } from "kubernetes-models/v1";

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

/** How `ChartRenderer.render` renders. */
interface RenderOptions {
  /** Name of the release. */
  readonly release?: string;
  /** Renders without validation by the schema, as Helm does with `--skip-schema-validation`. */
  readonly skipSchema?: boolean;
}

export class ChartRenderer implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "glovebox-chart-"));
  readonly #program = join(this.#folder, "render");
  readonly #chart: string;
  readonly #schema: Validator;

  /** @param chart folder of the chart */
  constructor(chart: string = CHART) {
    this.#chart = chart;
    this.#schema = new Validator(JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")), "7", false);
    execFileSync("go", ["build", "-o", this.#program, SOURCE], {
      env: { ...process.env, GO111MODULE: "off", GOPATH: LIBRARIES, GOCACHE: join(this.#folder, "cache"), GOFLAGS: "" },
    });
  }

  /** Returns values completed with the defaults of the chart. */
  coalesce(values: object): object {
    return JSON.parse(this.#run("values", values)) as object;
  }

  /**
   * Returns the objects, as `helm template` does.
   * @throws {Error} if the values do not match the schema, and the error of a template
   */
  render(values: object, { release = "demo", skipSchema = false }: RenderOptions = {}): readonly Manifest[] {
    if (!skipSchema) this.#validate(this.coalesce(values));
    return JSON.parse(this.#run("manifests", values, release, "tools")) as readonly Manifest[];
  }

  #validate(values: object): void {
    const problems = this.#schema
      .validate(values)
      .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
    if (problems.length > 0) throw new Error(`The values do not match the schema\n${problems.join("\n")}`);
  }

  #run(mode: "values" | "manifests", values: object, ...args: readonly string[]): string {
    const path = join(this.#folder, "values.json");
    writeFileSync(path, JSON.stringify(values));
    const all = [mode, this.#chart, path, ...args];
    const { status, stdout, stderr } = spawnSync(this.#program, all, { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    return stdout;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }
}

export const MODELS = {
  Deployment,
  StatefulSet,
  HorizontalPodAutoscaler,
  Ingress,
  NetworkPolicy,
  PodDisruptionBudget,
  Service,
  ServiceAccount,
} as const;

/** Validates an object against the schema that Kubernetes has for its kind. @throws {Error} */
export function validate(manifest: Manifest): void {
  const Model = MODELS[manifest.kind as keyof typeof MODELS];
  new (Model as typeof Deployment)(manifest as never).validate();
}

/** The least values: a control plane alone. */
export const LEAST = {
  image: { repository: "registry.example.com/glovebox" },
  database: { secretName: "database", peers: [{ ipBlock: { cidr: "10.1.0.0/16" } }] },
  masterKey: { secretName: "master-key" },
};
/** A pool of executors. */
export const POOL = {
  credentialsSecretName: "nats-executors-default",
  ...{ name: "default", replicas: 2, slots: 32, maxWorkers: 16, cacheSize: "2Gi" },
  resources: { requests: { cpu: "2", memory: "2Gi" }, limits: { memory: "8Gi" } },
  autoscaling: {
    ...{ enabled: false, minReplicas: 2, maxReplicas: 10 },
    ...{ metricName: "glovebox_executor_queue_calls", targetQueuedCalls: 4 },
  },
};
/** Values that render every object of the chart. */
export const ALL = {
  ...LEAST,
  controlPlane: {
    allowHosts: ["tools.example.com"],
    env: [{ name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "http://collector:4318" }],
    ingress: { enabled: true, className: "nginx", hosts: ["tools.example.com"], tlsSecretName: "tls" },
    ingressPeers: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress-nginx" } } }],
    autoscaling: { enabled: true },
  },
  executors: {
    enabled: true,
    nats: {
      ...{ url: "tls://nats.messaging:4222", credentialsSecretName: "nats", replicas: 3, caConfigMapName: "nats-ca" },
      peers: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "messaging" } } }],
    },
    pools: [
      POOL,
      {
        ...POOL,
        name: "gpu",
        credentialsSecretName: "nats-executors-gpu",
        nodeSelector: { gpu: "yes" },
        tolerations: [{ key: "gpu", operator: "Exists" }],
        autoscaling: { ...POOL.autoscaling, enabled: true },
      },
    ],
  },
};
