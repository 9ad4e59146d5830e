// The values of the Helm chart: what it rejects, and with which message. A value that is wrong, missing or empty opens nothing.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { ALL, CHART, ChartRenderer, canRender, LEAST, type Manifest, POOL, validate } from "./chart.ts";

let chart: ChartRenderer;
beforeAll(() => {
  if (!canRender) return;
  chart = new ChartRenderer();
  chart.prepare([...MESSAGES, ...SCHEMA].map(([, values]) => values));
});
afterAll(() => chart?.[Symbol.dispose]());

const control = (controlPlane: object): object => ({ ...LEAST, controlPlane });
const env = (...variables: readonly unknown[]): object => control({ env: variables });
const ingress = (values: object): object =>
  control({ ingress: { enabled: true, hosts: ["a.example.com"], ...values } });
const database = (values: object): object => ({ ...LEAST, database: { ...LEAST.database, ...values } });
const peers = (...list: readonly unknown[]): object => database({ peers: list });
const image = (values: object): object => ({ ...LEAST, image: { ...LEAST.image, ...values } });
const nats = (values: object): object => ({
  ...ALL,
  executors: { ...ALL.executors, nats: { ...ALL.executors.nats, ...values } },
});
const pools = (...list: readonly object[]): object => ({ ...ALL, executors: { ...ALL.executors, pools: list } });
const reference = (key: string): object => ({ valueFrom: { secretKeyRef: { name: "secret", key } } });

/** The NetworkPolicyPeers of every egress rule, with the name of the policy. */
function destinationsOf(manifests: readonly Manifest[]): readonly [string, readonly object[] | undefined][] {
  return manifests
    .filter(({ kind }) => kind === "NetworkPolicy")
    .flatMap(({ metadata, spec }) => spec.egress.map(({ to }: { to?: object[] }) => [metadata.name, to]));
}

const EVERYTHING = "Kubernetes reads a list without peers as every destination";
const MESSAGES: readonly (readonly [string, object, string])[] = [
  ["no image", { ...LEAST, image: {} }, "image.repository: Expected the image"],
  [
    "an image with a tag",
    image({ repository: "registry:5000/g:1" }),
    "image.repository: Expected a name without a tag",
  ],
  [
    "an image with a digest",
    image({ repository: "g@sha256:abc" }),
    "image.repository: Expected a name without a digest",
  ],
  ["no database", database({ secretName: "" }), "database.secretName: Expected the name"],
  ["no master key", { ...LEAST, masterKey: {} }, "masterKey.secretName: Expected the name"],

  ["peers of the database by default", { ...LEAST, database: { secretName: "database" } }, "database.peers: Expected"],
  ["no peers of the database", peers(), EVERYTHING],
  ["no peers of NATS", nats({ peers: [] }), "executors.nats.peers: Expected where pods find NATS"],
  ["no peers of DNS", { ...LEAST, dns: { peers: [] } }, "dns.peers: Expected where pods find DNS"],
  ["an empty peer", peers({}), "database.peers[0]: Expected ipBlock, podSelector or namespaceSelector"],
  ["an empty second peer", nats({ peers: [{ podSelector: {} }, {}] }), "executors.nats.peers[1]: Expected ipBlock"],
  ["an empty peer of ingress", control({ ingressPeers: [{}] }), "controlPlane.ingressPeers[0]: Expected ipBlock"],
  [
    "a peer of two kinds",
    peers({ podSelector: {}, ipBlock: { cidr: "10.0.0.0/8" } }),
    "database.peers[0]: Expected ipBlock or selectors, got both",
  ],
  ...[
    "nonsense",
    "10.0.0.0",
    "10.0.0/8",
    "10.0.0.256/8",
    "010.0.0.0/8",
    "10.0.0.0/33",
    "fd00::/129",
    "fd00::1::/64",
    "::g/8",
  ].map(
    (cidr) =>
      [
        `the range ${cidr}`,
        peers({ ipBlock: { cidr } }),
        `database.peers[0].ipBlock.cidr: Expected a CIDR range such as 10.1.0.0/16 or fd00::/8, got "${cidr}"`,
      ] as const,
  ),
  [
    "an exception that is no range",
    peers({ ipBlock: { cidr: "10.0.0.0/8", except: ["10.1"] } }),
    "database.peers[0].ipBlock.except[0]: Expected a CIDR range",
  ],
  ["an egress rule for everything", control({ egress: [{}] }), `controlPlane.egress[0].to: Expected where requests`],
  ["an egress rule without peers", control({ egress: [{ to: [], ports: [{ port: 443 }] }] }), EVERYTHING],
  ["an egress rule with an empty peer", control({ egress: [{ to: [{}] }] }), "controlPlane.egress[0].to[0]: Expected"],

  ...[
    ["a range of ports that ends before it begins", { port: 9000, endPort: 8000 }],
    ["a range of ports that begins with a name", { port: "https", endPort: 8000 }],
  ].map(
    ([name, port]) =>
      [
        name as string,
        control({ egress: [{ to: [{ podSelector: {} }], ports: [port] }] }),
        "controlPlane.egress[0].ports[0].endPort: Expected a number that is not below port",
      ] as const,
  ),

  ["no hosts", control({ ingress: { enabled: true } }), "controlPlane.ingress.hosts: Expected the host names"],
  [
    "fewer replicas at most than at least",
    control({ autoscaling: { enabled: true, minReplicas: 11 } }),
    "controlPlane.autoscaling.minReplicas: Expected at most maxReplicas (10), got 11",
  ],
  [
    "an autoscaler without a CPU request",
    control({ autoscaling: { enabled: true }, resources: { requests: { cpu: null } } }),
    "controlPlane.resources.requests.cpu: Expected a value",
  ],
  [
    "a pool with fewer replicas at most than at least",
    pools({ ...POOL, autoscaling: { ...POOL.autoscaling, enabled: true, minReplicas: 3, maxReplicas: 2 } }),
    "executors.pools[0].autoscaling.minReplicas: Expected at most maxReplicas (2), got 3",
  ],
  [
    "a pool with nothing but an enabled autoscaler",
    pools({ ...POOL, autoscaling: { enabled: true } }),
    "executors.pools[0].autoscaling.minReplicas: Expected a value, because autoscaling is enabled",
  ],
  [
    "a pool with an autoscaler without a metric",
    pools({ ...POOL, autoscaling: { enabled: true, minReplicas: 1, maxReplicas: 2, targetQueuedCalls: 4 } }),
    "executors.pools[0].autoscaling.metricName: Expected a value",
  ],
  [
    "two pools of one name",
    pools(POOL, { ...POOL, credentialsSecretName: "other" }),
    "executors.pools[1].name: Expected a name that no other pool has, got default again",
  ],
  ["no URL of NATS", nats({ url: "" }), "executors.nats.url: Expected the URL of NATS"],
  ["no credentials", nats({ credentialsSecretName: "" }), "executors.nats.credentialsSecretName: Expected the name"],
  [
    "no credentials of a pool",
    pools({ ...POOL, credentialsSecretName: "" }),
    "executors.pools[0].credentialsSecretName",
  ],
  ...(
    [
      ["nats", "executors.nats.credentialsSecretName"],
      ["database", "database.secretName"],
      ["master-key", "masterKey.secretName"],
    ] as const
  ).map(
    ([credentialsSecretName, path]) =>
      [
        `a pool with the secret of ${path}`,
        pools({ ...POOL, credentialsSecretName }),
        `executors.pools[0].credentialsSecretName: Expected a secret for this pool only, got that of ${path}`,
      ] as const,
  ),
  [
    "two pools with one secret",
    pools(POOL, { ...POOL, name: "gpu" }),
    "executors.pools[1].credentialsSecretName: Expected a secret for this pool only, got that of executors.pools[0]",
  ],

  [
    "a variable twice",
    env({ name: "A", value: "1" }, { name: "A", value: "2" }),
    "controlPlane.env[1].name: Expected each",
  ],
  [
    "a variable with two values",
    env({ name: "A", value: "1", ...reference("a") }),
    "controlPlane.env[0]: Expected value or valueFrom for A, got both",
  ],
  ...["OTEL_EXPORTER_OTLP_HEADERS", "PROXY_PASSWORD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "client_secret"].map(
    (name) =>
      [
        `the secret ${name} as text`,
        env({ name, value: "hunter2" }),
        `controlPlane.env[0]: Expected valueFrom.secretKeyRef for ${name}`,
      ] as const,
  ),
  [
    "a secret from a config map",
    env({ name: "A_TOKEN", valueFrom: { configMapKeyRef: { name: "a", key: "a" } } }),
    "controlPlane.env[0]: Expected valueFrom.secretKeyRef for A_TOKEN",
  ],
  [
    "a URL with a password",
    env({ name: "HTTPS_PROXY", value: "http://user:hunter2@proxy:3128" }),
    "controlPlane.env[0]: Expected valueFrom.secretKeyRef for HTTPS_PROXY",
  ],
  [
    "the secret of the sign-in as text",
    env({ name: "GLOVEBOX_OIDC", value: '{"issuer":"https://id.example.com","clientSecret":"hunter2"}' }),
    "controlPlane.env[0]: Expected valueFrom.secretKeyRef for GLOVEBOX_OIDC",
  ],
  ...["tls://user:hunter2@nats:4222", "tls://hunter2@nats:4222", "tls://a:4222,tls://user:hunter2@b:4222"].map(
    (url) => [`the URL ${url}`, nats({ url }), "executors.nats.url: Expected a URL without user, password"] as const,
  ),
];

/** Values that the schema rejects, with the path and the reason that its validator reports. */
const SCHEMA: readonly (readonly [string, object, string])[] = [
  ["an unknown value", { ...LEAST, databases: {} }, "#/databases"],
  ["an unknown value of the control plane", control({ replica: 3 }), "#/controlPlane/replica"],
  ["a time as text", control({ drainMs: "25s" }), '#/controlPlane/drainMs: Instance type "string" is invalid'],
  ["no pools", pools(), "#/executors/pools: Array has too few items"],
  ["a pool with a bad name", pools({ ...POOL, name: "EU_west" }), "#/executors/pools/0/name: String does not match"],
  ["a pool without values", pools({ name: "a", credentialsSecretName: "a" }), 'required property "autoscaling"'],
  ["another protocol", nats({ url: "http://nats:4222" }), "#/executors/nats/url: String does not match"],
  ["a policy of pulls", image({ pullPolicy: "Sometimes" }), "#/image/pullPolicy: Instance does not match any of"],
  ["a tag that is a number", image({ tag: 1.1 }), '#/image/tag: Instance type "number" is invalid'],
  ["a digest as a tag", image({ tag: "sha256:abc" }), "#/image/tag: String does not match"],
  ["a short digest", image({ digest: "sha256:abc" }), "#/image/digest: String does not match"],
  ...["..", "..a", ".", "", "../key", "a/b", "a b"].flatMap((secretKey) => [
    [
      `the master key ${JSON.stringify(secretKey)}`,
      { ...LEAST, masterKey: { secretName: "a", secretKey } },
      "#/masterKey/secretKey",
    ] as const,
    [`the database key ${JSON.stringify(secretKey)}`, database({ secretKey }), "#/database/secretKey"] as const,
  ]),
  ["a secret with spaces", database({ secretName: "My Secret" }), "#/database/secretName: String does not match"],

  ["a variable that is a number", env({ name: "A", value: 5 }), '#/controlPlane/env/0/value: Instance type "number"'],
  [
    "a variable that is a boolean",
    env({ name: "A", value: true }),
    '#/controlPlane/env/0/value: Instance type "boolean"',
  ],
  ["a variable that is null", env({ name: "A", value: null }), '#/controlPlane/env/0/value: Instance type "null"'],
  ["an unknown field of a variable", env({ name: "A", vallue: "5" }), "#/controlPlane/env/0/vallue"],
  [
    "an unknown source of a variable",
    env({ name: "A", valueFrom: { secret: {} } }),
    "#/controlPlane/env/0/valueFrom/secret",
  ],
  [
    "a variable without a name",
    env({ value: "5" }),
    '#/controlPlane/env/0: Instance does not have required property "name"',
  ],
  ...["A B", "A=B", "", "1A", "A\nB"].map(
    (name) =>
      [`the variable ${JSON.stringify(name)}`, env({ name }), "#/controlPlane/env/0/name: String does not"] as const,
  ),

  ["an unknown peer", peers({ ipBlok: { cidr: "10.0.0.0/8" } }), "#/database/peers/0/ipBlok"],
  [
    "an unknown selector",
    peers({ podSelector: { matchLabel: { app: "db" } } }),
    "#/database/peers/0/podSelector/matchLabel",
  ],
  ["a label that is a number", peers({ podSelector: { matchLabels: { a: 1 } } }), "podSelector/matchLabels/a"],
  ["a peer that is null", peers({ podSelector: null }), "#/database/peers/0/podSelector"],
  ["a peer that is text", peers("10.0.0.0/8"), "#/database/peers/0"],
  [
    "peers that are an object",
    database({ peers: LEAST.database.peers[0] }),
    '#/database/peers: Instance type "object"',
  ],
  ["an unknown field of an egress rule", control({ egress: [{ from: [] }] }), "#/controlPlane/egress/0/from"],
  [
    "an egress rule without ports",
    control({ egress: [{ to: [{ podSelector: {} }], ports: [] }] }),
    "#/controlPlane/egress/0/ports: Array has too few items",
  ],
  [
    "an egress rule for each port",
    control({ egress: [{ to: [{ podSelector: {} }], ports: [{ protocol: "TCP" }] }] }),
    '#/controlPlane/egress/0/ports/0: Instance does not have required property "port"',
  ],

  ...["443", "HTTPS", "a--b", "", "a-name-of-16-chars", 0, 65_536].map(
    (port) =>
      [
        `an egress rule for the port ${JSON.stringify(port)}`,
        control({ egress: [{ to: [{ podSelector: {} }], ports: [{ port }] }] }),
        "#/controlPlane/egress/0/ports/0/port",
      ] as const,
  ),

  ["a class that is a boolean", ingress({ className: true }), "#/controlPlane/ingress/className"],
  ["a class with a line break", ingress({ className: "a\nb: c" }), "#/controlPlane/ingress/className: String does not"],
  ["a TLS secret that is a number", ingress({ tlsSecretName: 1000 }), "#/controlPlane/ingress/tlsSecretName"],
  ["a host that is a URL", ingress({ hosts: ["http://a/b"] }), "#/controlPlane/ingress/hosts/0: String does not match"],
  ["an annotation that is a number", ingress({ annotations: { a: 1 } }), "#/controlPlane/ingress/annotations/a"],
  ["an allowed host that is a URL", control({ allowHosts: ["https://a.b"] }), "#/controlPlane/allowHosts/0"],
  ["an allowed host that is a pattern", control({ allowHosts: ["*.a.b"] }), "#/controlPlane/allowHosts/0"],
  [
    "a replica URL with a password",
    control({ replicaUrl: "http://a:b@c" }),
    "#/controlPlane/replicaUrl: String does not",
  ],
  ["another unit", control({ cacheSize: "2GB" }), "#/controlPlane/cacheSize: String does not match"],
];

/** Paths of all values that have a default, except those below lists and free-form objects, which null removes as it should. */
function pathsOf(values: object, path: readonly string[] = []): readonly (readonly string[])[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const own = [...path, name];
    const isTable = typeof value === "object" && value !== null && !Array.isArray(value);
    return [own, ...(isTable && !["resources", "annotations"].includes(name) ? pathsOf(value, own) : [])];
  });
}
const valuesAt = (path: readonly string[], value: unknown): object =>
  path.reduceRight<unknown>((below, name) => ({ [name]: below }), value) as object;

/** Replaces the value at a path of a tree. */
function replaceAt(tree: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  if (Array.isArray(tree))
    return tree.map((item, index) => (`${index}` === name ? replaceAt(item, rest, value) : item));
  const object = tree as Record<string, unknown>;
  return { ...object, [name]: replaceAt(object[name], rest, value) };
}
const textsOf = (tree: unknown, path: readonly string[] = []): readonly (readonly string[])[] =>
  typeof tree === "string"
    ? [path]
    : typeof tree === "object" && tree !== null
      ? Object.entries(tree).flatMap(([name, value]) => textsOf(value, [...path, name]))
      : [];
/** Replaces each leaf of a tree by its type. */
const shapeOf = (tree: unknown): unknown =>
  Array.isArray(tree)
    ? tree.map(shapeOf)
    : typeof tree === "object" && tree !== null
      ? Object.fromEntries(Object.entries(tree).map(([name, value]) => [name, shapeOf(value)]))
      : typeof tree;

describe.skipIf(!canRender)("values of the Helm chart", () => {
  test.for(MESSAGES)("says what to set instead of %s", ([, values, message], { expect }) => {
    expect(() => chart.render(values)).toThrow(message);
    // Without the schema too.
    expect(() => chart.render(values, { skipSchema: true })).toThrow(message);
  });

  test("rejects a release whose services would have invalid names", () => {
    expect(() => chart.render(ALL, { release: "my.release" })).toThrow(
      "The name of the release: Expected lower-case letters",
    );
  });

  test("accepts ports of egress rules that have a name or are a range", () => {
    const ports = [
      { port: "https" },
      { port: "h2-443" },
      { port: 8000, endPort: 9000 },
      { protocol: "UDP", port: 443 },
    ];
    const manifests = chart.render(control({ egress: [{ to: [{ podSelector: {} }], ports }] }));
    const { spec } = manifests.find(({ kind }) => kind === "NetworkPolicy") as Manifest;
    expect(spec.egress).toContainEqual({ to: [{ podSelector: {} }], ports });
    for (const manifest of manifests) validate(manifest);
  });

  test("repeats no secret in a message", () => {
    const secret = MESSAGES.filter(([, values]) => JSON.stringify(values).includes("hunter2"));
    expect(secret.length).toBeGreaterThan(8);
    for (const [name, values] of secret) {
      expect(() => chart.render(values), name).toThrow(/^(?![\s\S]*hunter2)[\s\S]*: Expected/);
    }
  });

  test.for(SCHEMA)("rejects %s with the schema", ([, values, message], { expect }) => {
    expect(() => chart.render(values)).toThrow("The values do not match the schema");
    expect(() => chart.render(values)).toThrow(message);
  });

  test("rejects null for each value with a default, and names it", () => {
    const paths = pathsOf(chart.coalesce({}));
    expect(paths.length).toBeGreaterThan(50);
    const toValues = (path: readonly string[]): object => ({ ...ALL, ...valuesAt(path, null) });
    chart.prepare(paths.map(toValues));
    for (const path of paths) {
      const values = toValues(path);
      expect(() => chart.render(values), path.join(".")).toThrow(`required property "${path.at(-1)}"`);
    }
  });

  test.for(["image", "database", "masterKey", "controlPlane", "executors", "dns", "networkPolicy"])(
    "names %s if it is null, without the schema too",
    (name, { expect }) => {
      expect(() => chart.render({ ...LEAST, [name]: null }, { skipSchema: true })).toThrow(
        `${name}: Expected an object`,
      );
    },
  );

  test("renders the values of the guide", () => {
    const guide = readFileSync(new URL("../../docs/guides/kubernetes.md", import.meta.url), "utf8");
    const [base, executors] = [...guide.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => parse(text ?? "") as object);
    expect(executors).toHaveProperty("executors");
    for (const values of [{ ...base }, { ...base, ...executors }]) {
      for (const manifest of chart.render(values)) expect(() => validate(manifest), manifest.kind).not.toThrow();
    }
  });

  test("renders no egress rule without destinations", () => {
    const rules = [...destinationsOf(chart.render(LEAST)), ...destinationsOf(chart.render(ALL))];
    expect(rules).toHaveLength(4 + 5 + 2);
    for (const [name, to] of rules) expect(to?.length, name).toBeGreaterThan(0);
    const closed = chart.render(control({ egress: [] }));
    expect(destinationsOf(closed)).toHaveLength(3);
    // Without network policies, the chart needs no peers.
    const without = chart.render({ ...LEAST, database: { secretName: "database" }, networkPolicy: { enabled: false } });
    expect(destinationsOf(without)).toEqual([]);
    expect(() => chart.render({ ...LEAST, networkPolicy: { enabled: null } }, { skipSchema: true })).toThrow(
      "networkPolicy.enabled: Expected true or false",
    );
  });

  test.for([[{ ipBlok: { cidr: "10.0.0.0/8" } }], [{ podSelector: null }], [null]])(
    "rejects the peer %o without the schema too",
    ([peer], { expect }) => {
      const message = "database.peers[0]: Expected ipBlock, podSelector or namespaceSelector";
      expect(() => chart.render(peers(peer), { skipSchema: true })).toThrow(message);
    },
  );

  test.for(["10.0.0.0/8", "0.0.0.0/0", "192.168.1.7/32", "::/0", "fd00::/8", "2001:db8:1:2:3:4:5:6/128", "::1/128"])(
    "accepts the range %s",
    (cidr, { expect }) => {
      const [, , [, to] = []] = destinationsOf(chart.render(peers({ ipBlock: { cidr } })));
      expect(to).toEqual([{ ipBlock: { cidr } }]);
    },
  );

  test("owns each variable that it sets", () => {
    const [deployment] = chart.render(ALL).filter(({ kind }) => kind === "Deployment");
    const own: readonly { name: string }[] = deployment?.spec.template.spec.containers[0].env;
    const names = own.map(({ name }) => name).filter((name) => name.startsWith("GLOVEBOX_"));
    expect(names.length).toBeGreaterThan(10);
    const all = [...names, "GLOVEBOX_MASTER_KEY", "GLOVEBOX_MASTER_KEY_COMMAND"];
    chart.prepare(all.flatMap((name) => [env({ name, value: "" }), env({ name, ...reference("a") })]));
    for (const name of all) {
      const message = `controlPlane.env[0].name: Expected a variable that the chart does not own, got ${name}`;
      expect(() => chart.render(env({ name, value: "" })), name).toThrow(message);
      expect(() => chart.render(env({ name, ...reference("a") })), name).toThrow(message);
    }
  });

  test("accepts variables that hold no secret, and secrets by reference", () => {
    const variables = [
      { name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "http://collector:4318/a@b" },
      { name: "OTEL_EXPORTER_OTLP_HEADERS", ...reference("headers") },
      { name: "GLOVEBOX_MAX_STREAMS_PER_KEY", value: "32" },
      { name: "GLOVEBOX_OIDC", value: '{"issuer":"https://id.example.com"}' },
      { name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
    ];
    const manifests = chart.render(env(...variables));
    for (const manifest of manifests) validate(manifest);
    const [deployment] = manifests.filter(({ kind }) => kind === "Deployment");
    expect(deployment?.spec.template.spec.containers[0].env.slice(-variables.length)).toEqual(variables);
  });

  const DIGEST = `sha256:${"a".repeat(64)}`;
  test.for([
    [{ repository: "registry:5000/g" }, "registry:5000/g:0.1.0"],
    [{ repository: "g", tag: "1.0" }, "g:1.0"],
    [{ repository: "g", digest: DIGEST }, `g@${DIGEST}`],
    [{ repository: "g", tag: "1.0", digest: DIGEST }, `g:1.0@${DIGEST}`],
  ] as const)("refers to the image %o", ([values, expected], { expect }) => {
    const images = chart
      .render({ ...ALL, image: values })
      .flatMap(({ spec }) => spec?.template?.spec.containers.map(({ image: own }: { image: string }) => own) ?? []);
    expect(images).toEqual([expected, expected, expected]);
  });

  test.for(["true", "123", "1e3", "null", "no", "glovebox"])(
    "renders objects of Kubernetes for the release %s",
    (release, { expect }) => {
      for (const manifest of chart.render(ALL, { release })) {
        expect(() => validate(manifest), manifest.kind).not.toThrow();
        expect(manifest.metadata.labels["app.kubernetes.io/instance"]).toBe(release);
      }
    },
  );

  test("keeps text as text, whatever it is", () => {
    const values = chart.coalesce(ALL);
    const expected = shapeOf(chart.render(values));
    const paths = textsOf(values);
    expect(paths.length).toBeGreaterThan(50);
    let rendered = 0;
    for (const text of ["true", "1e3", "no", 'a"b\n          injected: true\n---\nkind: Other\n# {{ fail "c" }}']) {
      const toValues = (path: readonly string[]): object => replaceAt(values, path, text) as object;
      chart.prepare(paths.map(toValues), { skipSchema: true });
      for (const path of paths) {
        const own = `${path.join(".")}: ${text}`;
        try {
          const manifests = chart.render(toValues(path), { skipSchema: true });
          expect(shapeOf(manifests), own).toEqual(expected);
          rendered += 1;
        } catch (error) {
          if ((error as Error).name === "AssertionError") throw error;
          expect((error as Error).message, own).toContain(`: Expected`);
        }
      }
    }
    expect(rendered).toBeGreaterThan(150);
  });

  test("quotes each value that a template interpolates", () => {
    const folder = join(CHART, "templates");
    const files = readdirSync(folder).filter((name) => name.endsWith(".yaml") || name === "_helpers.tpl");
    const interpolations = files.flatMap((name) => {
      const text = readFileSync(join(folder, name), "utf8");
      return [...text.matchAll(/^.*(?::|- ) \{\{-? (.*?) -?\}\}.*$/gm)].map(([line, action]) => ({ line, action }));
    });
    expect(interpolations.length).toBeGreaterThan(60);
    for (const { line, action } of interpolations) {
      expect(action, line).toMatch(/\| (?:quote|int)$|^include "glovebox\.graceSeconds"/);
    }
  });
});
