// Requests to forbidden destinations: each is denied before a connection is made, regardless of the allow rules.
import { describe, expect, test } from "vitest";
import type { EgressOptions } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import { LOOPBACK, onLoopback, type RequestOptions, rejectionOf, serve, TestCall } from "../../support/egress.ts";

const denied = (rule: string): object => ({
  code: "CAPABILITY_DENIED",
  message: expect.stringMatching(new RegExp(`^Denied by the rule "${rule}" of the egress policy: `)),
});

/** The host is allowed by name; its address is denied. */
const ADDRESSES: readonly string[] = [
  "http://127.0.0.1/",
  "http://2130706433/",
  "http://0x7f000001/",
  "http://017700000001/",
  "http://0177.0.0.1/",
  "http://0x7f.1/",
  "http://127.1/",
  "http://127.0.1/",
  "http://127.0.0.1./",
  "http://0/",
  "http://0.0.0.0/",
  "http://１２７.０.０.１/",
  "http://①②⑦.0.0.1/",
  "http://127。0。0。1/",
  "http://%31%32%37.0.0.1/",
  "http://%30x7f.1/",
  "http://10.0.0.1/",
  "http://172.16.0.1/",
  "http://172.31.255.255/",
  "http://192.168.1.1/",
  "http://169.254.169.254/latest/meta-data/",
  "http://2852039166/",
  "http://0xA9FEA9FE/",
  "http://0251.0376.0251.0376/",
  "http://100.64.0.1/",
  "http://100.100.100.200/",
  "http://168.63.129.16/",
  "http://192.0.0.192/",
  "http://192.0.2.1/",
  "http://192.88.99.1/",
  "http://198.51.100.1/",
  "http://203.0.113.1/",
  "http://198.18.0.1/",
  "http://224.0.0.1/",
  "http://239.255.255.250/",
  "http://240.0.0.1/",
  "http://255.255.255.255/",
  "http://[::]/",
  "http://[::1]/",
  "http://[0:0:0:0:0:0:0:1]/",
  "http://[::ffff:127.0.0.1]/",
  "http://[::ffff:7f00:1]/",
  "http://[::ffff:a9fe:a9fe]/",
  "http://[::ffff:8.8.8.8]/",
  "http://[::127.0.0.1]/",
  "http://[::ffff:0:127.0.0.1]/",
  "http://[64:ff9b::127.0.0.1]/",
  "http://[64:ff9b::a9fe:a9fe]/",
  "http://[64:ff9b:1::a00:1]/",
  "http://[2002:7f00:1::]/",
  "http://[2002:a9fe:a9fe::1]/",
  "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
  "http://[2606:4700::5efe:127.0.0.1]/",
  "http://[2606:4700::200:5efe:10.0.0.1]/",
  "http://[fe80::1]/",
  "http://[fec0::1]/",
  "http://[fc00::1]/",
  "http://[fd00:ec2::254]/",
  "http://[ff02::1]/",
  "http://[100::1]/",
  "http://[2001:db8::1]/",
  "http://[3fff::1]/",
  "http://[2001:2::1]/",
  "http://[2001:10::1]/",
  "http://[2001:20::1]/",
  "http://[5f00::1]/",
  "http://[4000::1]/",
  "https://127.0.0.1/",
  "https://[::1]/",
];

describe("an address that is not public", () => {
  test.for(ADDRESSES)("is denied though its host is allowed: %s", async (url) => {
    const { origin } = new URL(url);
    expect(await rejectionOf(new TestCall({ allow: [origin] }).request(url))).toEqual(denied("address"));
  });

  test.for<[string, readonly string[]]>([
    ["loopback", ["127.0.0.1"]],
    ["metadata", ["169.254.169.254"]],
    ["one private among public ones", ["93.184.215.14", "2606:4700::1", "10.0.0.1"]],
    ["IPv4-mapped", ["::ffff:10.0.0.1"]],
    ["mapped, in hexadecimal", ["::ffff:a00:1"]],
    ["with a zone", ["fe80::1%eth0"]],
    ["octal", ["0177.0.0.1"]],
    ["decimal", ["2130706433"]],
    ["another name", ["localhost"]],
    ["nothing", [""]],
  ])("is denied when a name resolves to it: %s", async ([, addresses]) => {
    const call = new TestCall({ allow: ["*.rebind.test"], resolve: () => addresses });
    expect(await rejectionOf(call.request("http://a.rebind.test/"))).toEqual(denied("address"));
  });

  test("is denied when the system's resolver gives it", async () => {
    expect(await rejectionOf(new TestCall({ allow: ["localhost"] }).request("http://localhost/"))).toEqual(
      denied("address"),
    );
  });

  test("is allowed if the host lists it, and its neighbours are not", async () => {
    const server = await serve((_request, response) => response.end("inside"));
    const call = new TestCall({
      allow: ["127.0.0.1", "127.0.0.2"].map((to) => ({ to, addresses: ["127.0.0.1"] })),
      ports: [server.port],
    });
    expect((await call.fetch(server.origin)).text).toBe("inside");
    expect(await rejectionOf(call.request(`http://127.0.0.2:${server.port}/`))).toEqual(denied("address"));
  });

  test("is not reached by a name that changes: it is resolved once, and the connection goes to what was checked", async () => {
    const server = await serve((request, response) => {
      response.setHeader("connection", "close").end(request.headers.host);
    });
    const answers = ["127.0.0.1", "10.0.0.1", "127.0.0.1"];
    let asked = 0;
    const resolve = (): readonly string[] => [answers[asked++] ?? "10.0.0.1"];
    const allow = [{ to: "rebind.test", addresses: ["127.0.0.1"] }];
    const call = new TestCall({ allow, ports: [server.port], resolve });
    const url = `http://rebind.test:${server.port}/`;
    expect([(await call.fetch(url)).text, asked]).toEqual([`rebind.test:${server.port}`, 1]);
    const other = new TestCall({ allow, ports: [server.port], resolve });
    expect([await rejectionOf(other.request(url)), asked]).toEqual([denied("address"), 2]);
  });
});

const EGRESS: EgressOptions = {
  allow: [
    ...onLoopback("api.test", "*.wild.test", "https://only.test", "port.test:8080"),
    { to: "get.test", methods: ["GET"], addresses: LOOPBACK },
  ],
  resolve: () => ["127.0.0.1"],
};

describe("a request that no rule allows", () => {
  test.for<[rule: string, url: string, options?: RequestOptions]>([
    ["scheme", "ftp://api.test/"],
    ["scheme", "file:///etc/passwd"],
    ["scheme", "gopher://api.test/_x"],
    ["scheme", "data:text/plain,x"],
    ["scheme", "javascript:alert(1)"],
    ["scheme", "ws://api.test/"],
    ["scheme", "blob:http://api.test/x"],
    ["userinfo", "http://user@api.test/"],
    ["userinfo", "http://user:password@api.test/"],
    ["userinfo", "http://api.test@127.0.0.1/"],
    ["allow", "http://127.0.0.1:80\\@api.test/"],
    ["allow", "http://127.0.0.1#@api.test/"],
    ["allow", "http://127.0.0.1?@api.test/"],
    ["allow", "http://evil.test/"],
    ["allow", "http://api.test.evil.test/"],
    ["allow", "http://evil-api.test/"],
    ["allow", "http://api.test./"],
    ["allow", "http://sub.api.test/"],
    ["allow", "http://wild.test/"],
    ["allow", "http://evilwild.test/"],
    ["allow", "http://only.test/"],
    ["allow", "https://only.test:8443/"],
    ["allow", "http://port.test/"],
    ["allow", "http://ａｐｉ.evil.test/"],
    ["ports", "http://api.test:22/"],
    ["ports", "http://api.test:6379/"],
    ["ports", "http://a.wild.test:8080/"],
    ["methods", "http://get.test/", { method: "POST" }],
    ["methods", "http://api.test/", { method: "CONNECT" }],
    ["methods", "http://api.test/", { method: "TRACE" }],
    ["methods", "http://api.test/", { method: "PROPFIND" }],
    ["methods", "http://api.test/", { method: "GET / HTTP/1.1\r\n\r\n" }],
  ])("is denied by %s: %s %j", async ([rule, url, options]) => {
    expect(await rejectionOf(new TestCall(EGRESS).request(url, options))).toEqual(denied(rule));
  });

  test.for<[string, string]>([
    ["Host", "evil.test"],
    ["content-length", "5"],
    ["Transfer-Encoding", "chunked"],
    ["connection", "keep-alive, x-secret"],
    ["Keep-Alive", "timeout=9"],
    ["upgrade", "h2c"],
    ["HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"],
    ["Proxy-Authorization", "Basic x"],
    ["proxy-connection", "close"],
    ["TE", "trailers"],
    ["trailer", "x"],
    ["Expect", "100-continue"],
    ["via", "1.1 x"],
    [":authority", "evil.test"],
    ["x\r\nhost", "evil.test"],
    ["x y", "1"],
    ["", "1"],
    ["x", "1\r\nHost: evil.test"],
    ["x", "1\nHost: evil.test"],
    ["x", "1\u0000"],
    ["x", "一"],
  ])("is denied by headers: %j: %j", async ([name, value]) => {
    const rejection = rejectionOf(new TestCall(EGRESS).request("http://api.test/", { headers: [[name, value]] }));
    expect(await rejection).toEqual(denied("headers"));
  });

  test.for<[rule: string, location: string]>([
    ["address", "http://169.254.169.254/latest/"],
    ["address", "http://[::ffff:10.0.0.1]/"],
    ["allow", "http://evil.test/"],
    ["allow", "//evil.test/"],
    ["ports", "http://api.test:22/"],
    ["scheme", "file:///etc/passwd"],
    ["scheme", "javascript:alert(1)"],
    ["userinfo", "http://a:b@api.test/"],
  ])("is denied by %s when a server redirects to it: %s", async ([rule, location]) => {
    const server = await serve((_request, response) => response.writeHead(302, { location }).end());
    const allow = [...EGRESS.allow, ...onLoopback(server.origin), "169.254.169.254", "[::ffff:10.0.0.1]"];
    const call = new TestCall({ ...EGRESS, allow });
    expect(await rejectionOf(call.request(server.origin))).toEqual(denied(rule));
    expect(server.requests).toHaveLength(1);
  });

  test.for<[rule: string, asked: unknown, url: string]>([
    ["capabilities.fetch", ["other.test"], "http://api.test/"],
    ["capabilities.fetch", [], "http://api.test/"],
    ["capabilities.fetch", ["https://api.test"], "http://api.test/"],
    ["capabilities.fetch", ["not a host!"], "http://api.test/"],
    ["allow", ["evil.test"], "http://evil.test/"],
    ["allow", true, "http://evil.test/"],
  ])("is denied by %s: the tool's own rules, %j, only narrow the host's", async ([rule, asked, url]) => {
    const call = new TestCall(EGRESS, {}, { fetch: asked as never });
    expect(await rejectionOf(call.request(url))).toEqual(denied(rule));
  });

  test("every request is denied without the option egress", async () => {
    expect(await rejectionOf(new TestCall({ allow: [] }).request("https://example.com/"))).toEqual(denied("allow"));
  });
});

describe("rules allow what they name", () => {
  test.for<[string, string]>([
    ["host", "http://API.test"],
    ["wildcard", "http://a.b.wild.test"],
    ["port", "http://port.test:8080"],
    ["IDNA", "http://ａｐｉ.test"],
    ["method", "http://get.test"],
  ])("%s: %s", async ([, url]) => {
    const asked: string[] = [];
    const resolve = (host: string): readonly string[] => {
      asked.push(host);
      return [];
    };
    const rejection = await rejectionOf(new TestCall({ ...EGRESS, resolve }).request(url));
    expect([rejection.code, asked]).toEqual(["TOOL_FAILED", [new URL(url).hostname]]);
  });
});
