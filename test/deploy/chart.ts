// Renders the Helm chart for tests, with the template engine and the functions that Helm uses, in a program that is compiled once.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
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
/** What the compiler has made of Go's own packages and of the libraries. It checks itself whether they have changed. */
const GO_CACHE = fileURLToPath(new URL("../../node_modules/.cache/glovebox/go", import.meta.url));

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

interface Request {
  readonly mode: "values" | "manifests";
  /** The given values as JSON. */
  readonly values: string;
  readonly release?: string;
  readonly namespace?: string;
}

interface Response {
  readonly result?: unknown;
  readonly error?: string;
}

const toRequest = (mode: Request["mode"], values: object, release = "demo"): Request => ({
  mode,
  values: JSON.stringify(values),
  ...(mode === "manifests" ? { release, namespace: "tools" } : {}),
});

export class ChartRenderer implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "glovebox-chart-"));
  readonly #program = join(this.#folder, "render");
  readonly #chart: string;
  readonly #schema: Validator;
  readonly #prepared = new Map<string, Response>();

  /** @param chart folder of the chart */
  constructor(chart: string = CHART) {
    this.#chart = chart;
    this.#schema = new Validator(JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")), "7", false);
    execFileSync("go", ["build", "-o", this.#program, SOURCE], {
      env: { ...process.env, GO111MODULE: "off", GOPATH: LIBRARIES, GOCACHE: GO_CACHE, GOFLAGS: "" },
    });
  }

  /** Renders values that a test is about to render one by one, in one process: starting the program takes most of its time. */
  prepare(all: readonly object[], { release, skipSchema = false }: RenderOptions = {}): void {
    const requests = all.flatMap((values) => [
      ...(skipSchema ? [] : [toRequest("values", values)]),
      toRequest("manifests", values, release),
    ]);
    for (const [index, response] of this.#send(requests).entries())
      this.#prepared.set(JSON.stringify(requests[index]), response);
  }

  /** Returns values completed with the defaults of the chart. */
  coalesce(values: object): object {
    return this.#run(toRequest("values", values)) as object;
  }

  /**
   * Returns the objects, as `helm template` does.
   * @throws {Error} if the values do not match the schema, and the error of a template
   */
  render(values: object, { release, skipSchema = false }: RenderOptions = {}): readonly Manifest[] {
    if (!skipSchema) this.#validate(this.coalesce(values));
    return this.#run(toRequest("manifests", values, release)) as readonly Manifest[];
  }

  #validate(values: object): void {
    const problems = this.#schema
      .validate(values)
      .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
    if (problems.length > 0) throw new Error(`The values do not match the schema\n${problems.join("\n")}`);
  }

  #run(request: Request): unknown {
    const response = this.#prepared.get(JSON.stringify(request)) ?? this.#send([request])[0];
    if (response?.error !== undefined) throw new Error(response.error);
    // A copy: a test may change it.
    return structuredClone(response?.result);
  }

  #send(requests: readonly Request[]): readonly Response[] {
    const printed = execFileSync(this.#program, [this.#chart], {
      input: requests.map((request) => JSON.stringify(request)).join("\n"),
      encoding: "utf8",
      maxBuffer: 256 * 1024 * 1024,
      env: { ...process.env, GOGC: "400" },
    });
    const responses = printed.trimEnd().split("\n");
    if (responses.length !== requests.length) throw new Error(`Expected ${requests.length} responses, got ${printed}`);
    return responses.map((line) => JSON.parse(line) as Response);
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
  name: "default",
  replicas: 2,
  slots: 32,
  maxWorkers: 16,
  cacheSize: "2Gi",
  resources: { requests: { cpu: "2", memory: "2Gi" }, limits: { memory: "8Gi" } },
  autoscaling: {
    enabled: false,
    minReplicas: 2,
    maxReplicas: 10,
    metricName: "glovebox_executor_queue_calls",
    targetQueuedCalls: 4,
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
      url: "tls://nats.messaging:4222",
      credentialsSecretName: "nats",
      replicas: 3,
      caConfigMapName: "nats-ca",
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
