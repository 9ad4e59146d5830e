// The Helm chart: what it renders is valid for Kubernetes, runs under the restricted pod security standard, and opens no more of the network than
// each part needs.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FLEET_ID_PATTERN } from "../../src/host/fleet/protocol/subjects.ts";
import { ALL, ChartRenderer, canRender, LEAST, type Manifest, type MODELS, validate } from "./chart.ts";

const MODULES: { readonly [Kind in keyof typeof MODELS]: string } = {
  Deployment: "kubernetes-models/apps/v1",
  StatefulSet: "kubernetes-models/apps/v1",
  HorizontalPodAutoscaler: "kubernetes-models/autoscaling/v2",
  Ingress: "kubernetes-models/networking.k8s.io/v1",
  NetworkPolicy: "kubernetes-models/networking.k8s.io/v1",
  PodDisruptionBudget: "kubernetes-models/policy/v1",
  Service: "kubernetes-models/v1",
  ServiceAccount: "kubernetes-models/v1",
};
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

let chart: ChartRenderer;
let least: readonly Manifest[];
let all: readonly Manifest[];
beforeAll(() => {
  if (!canRender) return;
  chart = new ChartRenderer();
  least = chart.render(LEAST);
  all = chart.render(ALL);
});
afterAll(() => chart?.[Symbol.dispose]());

const named = (manifests: readonly Manifest[], kind: string, name: string): Manifest => {
  const found = manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);
  if (found === undefined) throw new Error(`There is no ${kind} ${name}`);
  return found;
};
const workloads = (manifests: readonly Manifest[]): readonly Manifest[] =>
  manifests.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet");

describe.skipIf(!canRender)("the Helm chart", () => {
  test("renders a control plane alone, or with executors", () => {
    const namesOf = (manifests: readonly Manifest[]): readonly string[] =>
      manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
    expect(namesOf(least)).toEqual([
      "Deployment demo-glovebox",
      "NetworkPolicy demo-glovebox",
      "PodDisruptionBudget demo-glovebox",
      "Service demo-glovebox",
      "ServiceAccount demo-glovebox",
    ]);
    expect(namesOf(all)).toEqual([
      "Deployment demo-glovebox",
      "HorizontalPodAutoscaler demo-glovebox",
      "HorizontalPodAutoscaler demo-glovebox-executor-gpu",
      "Ingress demo-glovebox",
      "NetworkPolicy demo-glovebox",
      "NetworkPolicy demo-glovebox-executors",
      "PodDisruptionBudget demo-glovebox",
      "PodDisruptionBudget demo-glovebox-executor-default",
      "PodDisruptionBudget demo-glovebox-executor-gpu",
      "Service demo-glovebox",
      "Service demo-glovebox-executor-default",
      "Service demo-glovebox-executor-gpu",
      "ServiceAccount demo-glovebox",
      "StatefulSet demo-glovebox-executor-default",
      "StatefulSet demo-glovebox-executor-gpu",
    ]);
  });

  test("renders objects of the types of Kubernetes", () => {
    for (const manifest of [...least, ...all]) expect(() => validate(manifest), manifest.kind).not.toThrow();
  });

  test("renders no field that Kubernetes does not know", () => {
    mkdirSync(join(ROOT, "node_modules/.cache"), { recursive: true });
    const folder = mkdtempSync(join(ROOT, "node_modules/.cache/glovebox-chart-"));
    try {
      const lines = [...least, ...all].map((manifest, index) => {
        const kind = manifest.kind as keyof typeof MODULES;
        return `import type { I${kind} as T${index} } from "${MODULES[kind]}";\nexport const m${index}: T${index} = ${JSON.stringify(manifest)};`;
      });
      writeFileSync(join(folder, "manifests.ts"), lines.join("\n"));
      const check = (): Buffer =>
        execFileSync(
          process.execPath,
          [
            join(ROOT, "node_modules/.bin/tsc"),
            ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--types", ""],
            join(folder, "manifests.ts"),
          ],
          { cwd: folder },
        );
      expect(() => check()).not.toThrow();
      // The check finds what it is for.
      const wrong = lines.map((line) =>
        line.replace('"automountServiceAccountToken"', '"automountServiceAccountTokens"'),
      );
      writeFileSync(join(folder, "manifests.ts"), wrong.join("\n"));
      expect(() => check()).toThrow();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("follows the restricted pod security standard", () => {
    expect(workloads(all)).toHaveLength(3);
    for (const { spec } of workloads(all)) {
      const pod = spec.template.spec;
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      expect(pod.automountServiceAccountToken).toBe(false);
      for (const name of ["hostNetwork", "hostPID", "hostIPC", "initContainers"]) expect(pod[name]).toBeUndefined();
      for (const volume of pod.volumes) {
        expect(["emptyDir", "secret", "configMap"]).toContain(Object.keys(volume).find((key) => key !== "name"));
      }
      expect(pod.containers).toHaveLength(1);
      expect(pod.containers[0].securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    }
  });

  test("has probes, resources and time to drain for each container", () => {
    for (const { spec } of workloads(all)) {
      const { terminationGracePeriodSeconds, containers } = spec.template.spec;
      const [container] = containers;
      for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) expect(container[probe]).toBeDefined();
      expect(container.resources.limits.memory).toBeDefined();
      const drainMs = container.env.find(({ name }: { name: string }) => name === "GLOVEBOX_DRAIN_MS").value;
      expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(Number(drainMs) + 15_000);
    }
    // Half seconds are rounded up.
    const [odd] = workloads(chart.render({ ...LEAST, controlPlane: { drainMs: 25_500 } }));
    expect(odd?.spec.template.spec.terminationGracePeriodSeconds).toBe(46);
  });

  test("restarts no server that is alive and not ready, such as one with a full disk", () => {
    const [probed] = workloads(all)
      .map(({ spec }) => spec.template.spec.containers[0])
      .filter(({ startupProbe }) => startupProbe.httpGet);
    const paths = ["startupProbe", "livenessProbe", "readinessProbe"].map((name) => probed[name].httpGet.path);
    expect(paths).toEqual(["/healthz", "/healthz", "/readyz"]);
  });

  test("selects the pods of one component with each object", () => {
    const labels = workloads(all).map(({ spec }) => spec.template.metadata.labels as Record<string, string>);
    const selected = (selector: Record<string, string>): number =>
      labels.filter((own) => Object.entries(selector).every(([name, value]) => own[name] === value)).length;
    for (const { kind, spec } of all) {
      if (kind === "Service") expect(selected(spec.selector)).toBe(1);
      if (kind === "PodDisruptionBudget") expect(selected(spec.selector.matchLabels)).toBe(1);
      if (kind === "Deployment" || kind === "StatefulSet") expect(selected(spec.selector.matchLabels)).toBe(1);
      if (kind === "HorizontalPodAutoscaler") named(all, spec.scaleTargetRef.kind, spec.scaleTargetRef.name);
    }
    expect(selected(named(all, "NetworkPolicy", "demo-glovebox").spec.podSelector.matchLabels)).toBe(1);
    expect(selected(named(all, "NetworkPolicy", "demo-glovebox-executors").spec.podSelector.matchLabels)).toBe(2);
  });

  test("lets executors reach DNS and NATS only, and nothing reach them", () => {
    const { spec } = named(all, "NetworkPolicy", "demo-glovebox-executors");
    expect(spec.policyTypes).toEqual(["Ingress", "Egress"]);
    expect(spec.ingress).toEqual([]);
    expect(spec.egress).toHaveLength(2);
    expect(spec.egress[0].ports.map(({ port }: { port: number }) => port)).toEqual([53, 53]);
    expect(spec.egress[1]).toEqual({ to: ALL.executors.nats.peers, ports: [{ protocol: "TCP", port: 4222 }] });
    for (const { to } of spec.egress) expect(to.length).toBeGreaterThan(0);
  });

  test("lets only named pods and its own replicas connect to the control plane", () => {
    const { podSelector, ingress: own } = named(least, "NetworkPolicy", "demo-glovebox").spec;
    const ports = [{ protocol: "TCP", port: "http" }];
    expect(own).toEqual([{ from: [{ podSelector }], ports }]);
    const { ingress, egress } = named(all, "NetworkPolicy", "demo-glovebox").spec;
    expect(ingress).toEqual([{ from: [{ podSelector }, ...ALL.controlPlane.ingressPeers], ports }]);
    expect(egress).toContainEqual({ to: [{ podSelector }], ports });
    // Requests of tools reach no address of a private network.
    const blocks = egress.flatMap(({ to }: { to: { ipBlock?: { cidr: string; except?: string[] } }[] }) =>
      to.flatMap(({ ipBlock }) => ipBlock ?? []),
    );
    const open = blocks.find(({ cidr }: { cidr: string }) => cidr === "0.0.0.0/0");
    expect(open.except).toEqual(expect.arrayContaining(["10.0.0.0/8", "169.254.0.0/16"]));
  });

  test("lets each replica say where the others reach it", () => {
    const envOf = (manifests: readonly Manifest[]) =>
      named(manifests, "Deployment", "demo-glovebox").spec.template.spec.containers[0].env as { name: string }[];
    // Kubernetes replaces a variable that comes earlier in the list.
    const names = envOf(least).map(({ name }) => name);
    expect(names.indexOf("GLOVEBOX_POD_IP")).toBeLessThan(names.indexOf("GLOVEBOX_REPLICA_URL"));
    expect(envOf(least)).toContainEqual({ name: "GLOVEBOX_REPLICA_URL", value: "http://$(GLOVEBOX_POD_IP):7070" });
    const without = envOf(chart.render({ ...LEAST, controlPlane: { replicaUrl: "" } }));
    expect(without.map(({ name }) => name)).not.toContain("GLOVEBOX_REPLICA_URL");
  });

  test("takes secrets from objects that exist, and gives each executor its own", () => {
    expect(all.map(({ kind }) => kind)).not.toContain("Secret");
    const control = named(all, "Deployment", "demo-glovebox").spec.template.spec;
    const database = control.containers[0].env.find(({ name }: { name: string }) => name === "GLOVEBOX_DATABASE");
    expect(database.valueFrom).toEqual({ secretKeyRef: { name: "database", key: "url" } });
    const nats = control.volumes.find(({ name }: { name: string }) => name === "nats");
    expect(nats.secret.items).toEqual([{ key: "control-plane.json", path: "control-plane.json" }]);
    expect(control.containers[0].env).toContainEqual({ name: "GLOVEBOX_NATS_REPLICAS", value: "3" });
    for (const manifest of workloads(all).filter(({ kind }) => kind === "StatefulSet")) {
      // No machine of a pool can read the credentials of the control plane, or of another pool.
      const { volumes } = manifest.spec.template.spec;
      const secrets = volumes.flatMap(({ secret }: { secret?: { secretName: string } }) => secret?.secretName ?? []);
      expect(secrets).toEqual([`nats-executors-${manifest.metadata.name.replace("demo-glovebox-executor-", "")}`]);
      const [container] = manifest.spec.template.spec.containers;
      const mounts = container.volumeMounts.filter(({ name }: { name: string }) => name === "credentials");
      expect(mounts).toEqual([
        {
          name: "credentials",
          mountPath: "/run/secrets/executor.json",
          readOnly: true,
          subPathExpr: "$(POD_NAME).json",
        },
      ]);
      // The name of a pod is the id of its executor.
      expect(`${manifest.metadata.name}-9`).toMatch(FLEET_ID_PATTERN);
    }
  });

  test("hashes requests only as the values say, because a path differs for each tool and call", () => {
    const annotationsOf = (manifests: readonly Manifest[]): unknown =>
      (named(manifests, "Ingress", "demo-glovebox").metadata as { annotations?: unknown }).annotations;
    expect(annotationsOf(all)).toBeUndefined();
    const annotations = { "nginx.ingress.kubernetes.io/upstream-hash-by": "$glovebox_tenant" };
    const { ingress } = ALL.controlPlane;
    const hashed = chart.render({
      ...ALL,
      controlPlane: { ...ALL.controlPlane, ingress: { ...ingress, annotations } },
    });
    expect(annotationsOf(hashed)).toEqual(annotations);
  });

  test("scales executors by the calls that wait", () => {
    const { spec } = named(all, "HorizontalPodAutoscaler", "demo-glovebox-executor-gpu");
    expect(spec.metrics).toEqual([
      {
        type: "External",
        external: {
          metric: { name: "glovebox_executor_queue_calls", selector: { matchLabels: { pool: "gpu" } } },
          target: { type: "AverageValue", averageValue: "4" },
        },
      },
    ]);
    expect(named(all, "StatefulSet", "demo-glovebox-executor-gpu").spec.replicas).toBeUndefined();
    expect(named(all, "StatefulSet", "demo-glovebox-executor-default").spec.replicas).toBe(2);
  });
});
