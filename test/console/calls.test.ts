// Calls in a real browser: the live list, errors, nested calls, the tool's own spans, and approvals of single calls.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";
import { useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;

/** Adds copies of a call, which began months ago, to the database of a running server, and makes another call older than these. */
function addCopies(dataDir: string, id: string, count: number, oldest: string): void {
  const database = new DatabaseSync(join(dataDir, SQLITE_FILE));
  try {
    database.exec(`update calls set id = 'call_01m0000000' || substr(id, 16) where id = '${oldest}'`);
    const columns = database.prepare("select name from pragma_table_info('calls') where name <> 'id'").all();
    const names = columns.map(({ name }) => `"${name}"`).join(", ");
    const first = Number(database.prepare("select count(*) as count from calls").get()?.count);
    database.exec(`insert into calls (id, ${names})
      with recursive numbers (n) as (select ${first} union all select n + 1 from numbers where n + 1 < ${first + count})
      select 'call_01m1000000' || printf('%016d', n), ${names} from numbers, calls where id = '${id}'`);
  } finally {
    database.close();
  }
}

/** Adds a call that waits in the queue until next year to the database of a running server. */
function addQueued(dataDir: string, id: string): void {
  const database = new DatabaseSync(join(dataDir, SQLITE_FILE));
  try {
    const columns = database.prepare("select name from pragma_table_info('calls')").all();
    const values: { readonly [name: string]: string } = {
      id: "'call_' || substr(id, 6, 20) || '000000'",
      state: "'queued'",
      started_at: "null",
      ended_at: "null",
      usage: "null",
      run_at: String(Date.now() + 365 * 86_400_000),
    };
    const names = columns.map(({ name }) => String(name));
    database.exec(`insert into calls (${names.join()}) select ${names.map((name) => values[name] ?? name).join()}
      from calls where id = '${id}'`);
  } finally {
    database.close();
  }
}

describe("the overview", () => {
  test("shows CPU time, waiting time and the queue of each tenant and each tool", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "waiting" });
    const source = "export default () => { for (const end = Date.now() + 20; Date.now() < end; ); };";
    await suite.under.api("POST", "/v1/tenants/waiting/tools", { name: "spin", source });
    const { body } = await suite.under.api<{ id: string }>("POST", "/v1/tenants/waiting/tools/spin/calls", {});
    // Its row has been written when the call can be read.
    await suite.under.api("GET", `/v1/tenants/waiting/calls/${body.id}`);
    addQueued(suite.under.dataDir, body.id);
    const { page, problems, go } = await open();
    await go("");
    const rowOf = async (table: string, name: string): Promise<ReadonlyMap<string, string>> => {
      const region = page.getByRole("region", { name: table });
      const row = region.getByRole("row").filter({ has: page.getByRole("cell", { name, exact: true }) });
      await row.waitFor();
      const titles = await region.getByRole("columnheader").allTextContents();
      const cells = await row.getByRole("cell").allTextContents();
      return new Map(titles.map((title, index) => [title, cells[index] ?? ""]));
    };
    const tenant = await rowOf("Tenants by number of calls", "waiting");
    const tool = await rowOf("Tools by number of calls", "spin");
    for (const row of [tenant, tool]) {
      expect([row.get("Tenant"), row.get("Calls"), row.get("Failed"), row.get("Queued")]).toEqual([
        ...["waiting", "1", "0 %", "1"],
      ]);
      expect(row.get("CPU time")).toMatch(/^\d.* m?s$/);
      expect(row.get("Waiting p95")).toMatch(/^\d.* m?s$/);
    }
    await page.getByText("CPU time per second").waitFor();
    await go("/t/waiting");
    await page.getByRole("region", { name: "Tools by number of calls" }).waitFor();
    expect(await page.getByRole("region", { name: "Tenants by number of calls" }).count()).toBe(0);
    expect(problems).toEqual([]);
  });
});

describe("the list of calls", () => {
  test("stays in its place while new calls arrive, and misses none of many", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "busy" });
    await suite.under.api("POST", "/v1/tenants/busy/tools", { name: "add", source: "export default ({ n }) => n;" });
    const make = async (from: number, count: number): Promise<void> => {
      for (let n = from; n < from + count; n += 100) {
        const calls = Array.from({ length: Math.min(100, from + count - n) }, (_, k) => ({
          tool: "add",
          input: { n: n + k },
        }));
        expect((await suite.under.api("POST", "/v1/tenants/busy/calls", { calls })).status).toBe(200);
      }
    };
    await make(0, 150);
    const { page, go } = await open();
    await go("/t/busy/calls");

    await page.getByText("150 loaded, live").waitFor();
    await page.evaluate("document.querySelector('.calls').scrollTop = 2_000");
    const shown = (): Promise<unknown> =>
      page.evaluate(`{
        const list = document.querySelector(".calls");
        const top = list.getBoundingClientRect().top + 40;
        [...list.querySelectorAll("a.call-row")].find((row) => row.getBoundingClientRect().top > top)?.href;
      }`);
    /** The list has come to rest when it shows the same twice. */
    const atRest = async (): Promise<unknown> => {
      for (let last = await shown(); ; ) {
        await page.waitForTimeout(300);
        // A page that has not drawn since then shows the same because nothing happened, not because it rests.
        await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
        const now = await shown();
        if (now === last) return now;
        last = now;
      }
    };
    const before = await atRest();
    expect(before).toContain("/console/t/busy/calls/call_");
    await make(150, 500);
    await page.getByText("650 loaded, live").waitFor();
    expect(await atRest()).toBe(before);
  });

  test("finds a call behind 125,000 others, and says how far back it has searched", async () => {
    const { api, dataDir } = suite.under;
    await api("POST", "/v1/tenants", { id: "rare" });
    for (const name of ["rare", "common"])
      await api("POST", "/v1/tenants/rare/tools", { name, source: `export default () => ${JSON.stringify(name)};` });
    const callOf = async (name: string): Promise<string> =>
      (await api<{ id: string }>("POST", `/v1/tenants/rare/tools/${name}/calls`, {})).body.id;
    const [rare, common] = [await callOf("rare"), await callOf("common")];
    // The server stores the calls before it lists them.
    expect((await api<{ items: unknown[] }>("GET", "/v1/tenants/rare/calls")).body.items).toHaveLength(2);
    const { page, go } = await open();
    const search = page.getByText(/^Searched back to .*: no call matches so far$/);
    addCopies(dataDir, common, 25_000, rare);
    await go("/t/rare/calls?tool=rare");
    await page.getByText("1 loaded, live").waitFor();
    addCopies(dataDir, common, 100_000, rare);
    await page.reload();
    await search.waitFor();
    expect(await page.getByText("No call matches these filters").count()).toBe(0);
    await page.getByRole("button", { name: "Search further back" }).click();
    await page.getByText("1 loaded, live").waitFor();
    await search.waitFor({ state: "detached" });
    // A list without a match says so only when it was searched to its end.
    await go("/t/rare/calls?tool=none");
    await search.waitFor();
    await page.getByRole("button", { name: "Search further back" }).click();
    await page.getByText("No call matches these filters").waitFor();
  });

  test("keeps what is typed into a filter while the list refreshes, and drops a filter that is cleared", async () => {
    const { api } = suite.under;
    await api("POST", "/v1/tenants", { id: "typed" });
    await api("POST", "/v1/tenants/typed/tools", { name: "say", source: "export default ({ word }) => word;" });
    for (const word of ["needle", "hay"]) await api("POST", "/v1/tenants/typed/tools/say/calls", { input: { word } });
    const { page, go, problems } = await open();
    await go("/t/typed/calls");
    await page.getByText("2 loaded, live").waitFor();
    const text = page.getByLabel("Text in input, output, error or logs");
    for (const part of ["nee", "dle"]) {
      await text.pressSequentially(part);
      await page.waitForResponse((response) => response.url().endsWith("/running-calls"));
      await page.waitForResponse((response) => response.url().endsWith("/running-calls"));
    }
    await text.press("Enter");
    await page.getByText("1 loaded, live").waitFor();
    expect(new URL(page.url()).searchParams.get("text")).toBe("needle");
    await text.fill("");
    await page.getByText("2 loaded, live").waitFor();
    // A number that is not complete is no filter, and stays.
    const duration = page.getByLabel("At least … ms");
    await duration.pressSequentially("-");
    await page.waitForResponse((response) => response.url().endsWith("/running-calls"));
    await duration.pressSequentially("1");
    await duration.press("Enter");
    expect(new URL(page.url()).searchParams.get("minMs")).toBe("-1");
    expect(problems).toEqual([]);
  });

  test("shows another filter while a page of the one before does not come, and keeps its calls when that fails", async () => {
    const { api } = suite.under;
    await api("POST", "/v1/tenants", { id: "left" });
    for (const name of ["one", "two"]) {
      await api("POST", "/v1/tenants/left/tools", { name, source: "export default ({ n }) => n;" });
      for (let count = 0; count < 5; count += 1) {
        const calls = Array.from({ length: 100 }, (_, n) => ({ tool: name, input: { n } }));
        expect((await api("POST", "/v1/tenants/left/calls", { calls })).status).toBe(200);
      }
    }
    const { page, go, problems } = await open();
    const failure = Promise.withResolvers<void>();
    const isMore = (url: URL, tool: string): boolean =>
      url.pathname.endsWith("/left/calls") && url.searchParams.get("tool") === tool && url.searchParams.has("cursor");
    const { promise: isRequested, resolve: onRequested } = Promise.withResolvers<void>();
    await page.route(
      (url) => isMore(url, "one"),
      async (route) => {
        onRequested();
        await failure.promise;
        await route.fulfill({ status: 503, json: { error: { code: "UNAVAILABLE", message: "Gone" } } }).catch(() => {});
      },
    );
    const scroll = (): Promise<unknown> => page.evaluate("document.querySelector('.calls').scrollTop = 1e6");
    await go("/t/left/calls?tool=one");
    await page.getByText("200 loaded, live").waitFor();
    await scroll();
    await isRequested;
    await page.getByLabel("Tool", { exact: true }).fill("two");
    await page.getByLabel("Tool", { exact: true }).press("Enter");
    await page.getByText("200 loaded, live").waitFor();
    await expect.poll(() => page.locator("a.call-row").first().textContent()).toContain("two");
    await scroll();
    await page.getByText("400 loaded, live").waitFor();
    failure.resolve();
    await scroll();
    await page.getByText("500 loaded, live").waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test("copies where the browser has no clipboard for pages, as in frames and without TLS", async () => {
    const { api } = suite.under;
    await api("POST", "/v1/tenants", { id: "copied" });
    await api("POST", "/v1/tenants/copied/tools", { name: "give", source: "export default () => ({ given: 42 });" });
    const { body } = await api<{ id: string }>("POST", "/v1/tenants/copied/tools/give/calls", {});
    const { page, go, problems } = await open();
    await page.addInitScript("delete Navigator.prototype.clipboard");
    await go(`/t/copied/calls/${body.id}?tab=copy`);
    const copy = page.getByRole("button", { name: "Copy curl" });
    await copy.click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    await page.evaluate(`{
      const field = document.createElement("textarea");
      field.id = "pasted";
      document.body.append(field);
      field.focus();
    }`);
    await page.keyboard.press("Control+V");
    expect(await page.locator("#pasted").inputValue()).toContain("curl");
    expect(problems).toEqual([]);
  });

  test("shows the error of a call with the author's lines", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "lines" });
    const source = "const fail = () => {\n  throw new TypeError('broken here');\n};\nexport default () => fail();";
    await suite.under.api("POST", "/v1/tenants/lines/tools", { name: "fails", source });
    const { body } = await suite.under.api<{ id: string }>("POST", "/v1/tenants/lines/tools/fails/calls", {});
    const { page, go } = await open();
    await go(`/t/lines/calls/${body.id}`);
    await page
      .getByText(">  2    throw new TypeError('broken here');")
      .or(page.getByText("> 2    throw new TypeError('broken here');"))
      .waitFor();
    await page.getByText("at fail (tool.ts:2:9)").waitFor();
  });

  test("shows an error of a tool of several files, which the command line has bundled, in the author's own file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "glovebox-console-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, "parcel", "lib"), { recursive: true });
    writeFileSync(
      join(folder, "parcel", "tool.ts"),
      `import { weigh } from "./lib/weigh.ts";

interface Input {
  readonly grams: number;
}
export default ({ grams }: Input): string => \`${"$"}{weigh(grams)} kg\`;
`,
    );
    writeFileSync(
      join(folder, "parcel", "lib", "weigh.ts"),
      `type Kilograms = number;

/** Converts a weight. */
export function weigh(grams: number): Kilograms {
  if (grams < 0) {
    throw new RangeError("A parcel cannot weigh less than nothing");
  }
  return grams / 1_000;
}
`,
    );
    await suite.under.api("POST", "/v1/tenants", { id: "mapped" });
    const env = { ...cliEnvironment(folder), GLOVEBOX_URL: suite.under.server.url, GLOVEBOX_API_KEY: suite.under.key };
    await using deploy = new NodeProcess([MAIN, "deploy", "parcel", "--tenant", "mapped"], { cwd: folder, env });
    expect([await deploy.exit, deploy.stderr]).toEqual([0, ""]);
    const { page, problems, go } = await open();
    await go("/t/mapped/tools/parcel");
    await page.getByLabel("Input as JSON").fill('{ "grams": -1 }');
    await page.getByRole("button", { name: "Call parcel" }).click();
    await page.getByText("failed", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Timeline and details" }).click();
    const error = page.getByRole("alert");
    await error.getByText("at weigh (lib/weigh.ts:6:11)").waitFor();
    await error.getByText("at default (tool.ts:6:").waitFor();
    const lines = error.locator(".source-lines span");
    await lines.first().waitFor();
    expect(await lines.allTextContents()).toEqual([
      "  3  /** Converts a weight. */\n",
      "  4  export function weigh(grams: number): Kilograms {\n",
      "  5    if (grams < 0) {\n",
      '> 6      throw new RangeError("A parcel cannot weigh less than nothing");\n',
      "  7    }\n",
      "  8    return grams / 1_000;\n",
      "  9  }\n",
    ]);
    expect(await page.locator("main").textContent()).not.toContain(folder);
    expect(problems).toEqual([]);
  });
});

describe("one call", () => {
  test("opens its nested calls as a tree, and shows the tool's own spans with their attributes", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "tree" });
    const base = "/v1/tenants/tree";
    const leaf =
      "export default ({ n }) => { console.log('leaf', n); if (n === 2) throw new Error('no two'); return n; };";
    const middle = `export const capabilities = { tools: true };
      export default async ({ n }, { tools }) => await tools.leaf({ n });`;
    const outer = `export const capabilities = { tools: true };
      export default async (_, ctx) => {
        await ctx.span("first part", { rows: 3 }, () => ctx.tools.middle({ n: 1 }));
        try { await ctx.tools.middle({ n: 2 }); } catch {}
        return "done";
      };`;
    for (const [name, source] of Object.entries({ leaf, middle, outer })) {
      expect((await suite.under.api("POST", `${base}/tools`, { name, source, approve: true })).status).toBe(201);
    }
    const { body: call } = await suite.under.api<{ id: string }>("POST", `${base}/tools/outer/calls`, {});
    const { page, problems, go } = await open();
    await go(`/t/tree/calls/${call.id}`);
    await page.getByRole("button", { name: "first part" }).click();
    const facts = page.locator(".span-facts");
    await facts.getByText("rows").waitFor();
    expect(await facts.textContent()).toContain("rows3");
    await page.getByRole("tab", { name: "Nested calls" }).click();
    const rows = page.getByRole("list", { name: "Nested calls" }).getByRole("listitem");
    await rows.nth(4).waitFor();
    const texts = await rows.allTextContents();
    expect(texts.map((text) => /(?:level (\d): |^)(outer|middle|leaf)(succeeded|failed)/.exec(text)?.slice(1))).toEqual(
      [
        [undefined, "outer", "succeeded"],
        ["1", "middle", "succeeded"],
        ["2", "leaf", "succeeded"],
        ["1", "middle", "failed"],
        ["2", "leaf", "failed"],
      ],
    );
    // The page of a nested call leads to its own log and error, and back to the call that made it.
    await rows.nth(4).getByRole("link").click();
    await page.getByText("no two").first().waitFor();
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.getByText("leaf 2").waitFor();
    await page.getByRole("link", { name: `${call.id}.2`, exact: true }).click();
    await page.getByRole("heading", { name: "middle" }).waitFor();
    await go("/t/tree/calls");
    await page.getByText("1 loaded, live").waitFor();
    await page.getByLabel("Nested calls").selectOption("true");
    await page.getByText("5 loaded, live").waitFor();
    expect(problems).toEqual([]);
  });
});

describe("an output with content parts", () => {
  test("shows images and audio from data of limited formats, and runs nothing", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "media" });
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="globalThis.stolen=1"><script>globalThis.stolen=1</script></svg>`;
    const source = `import { audio, content, image, text } from "glovebox/tool";
      const bytes = (base64) => Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
      export default () => content([
        text("<b>bold</b>"), image(bytes("${png}"), "image/png"), audio(new Uint8Array(44), "audio/wav"),
        image(new TextEncoder().encode(${JSON.stringify(svg)}), "image/svg+xml"),
        image(new TextEncoder().encode("<script>globalThis.stolen=1</script>"), "text/html"),
      ]);`;
    await suite.under.api("POST", "/v1/tenants/media/tools", { name: "draws", source });
    const { body: call } = await suite.under.api<{ id: string }>("POST", "/v1/tenants/media/tools/draws/calls", {});
    const { page, problems, go } = await open();
    await go(`/t/media/calls/${call.id}?tab=input`);
    const parts = page.getByRole("region", { name: "Content parts" });
    await parts.getByText("<b>bold</b>").waitFor();
    const image = parts.getByRole("img", { name: "Part 2 of the output" });
    await expect
      .poll(() => image.evaluate((element) => (element as unknown as { naturalWidth: number }).naturalWidth))
      .toBe(1);
    await parts.getByLabel("Part 3 of the output, audio").waitFor();
    await parts.getByText(/^image\/svg\+xml, .*: this format is not shown here\.$/).waitFor();
    await parts.getByText(/^text\/html, .*: this format is not shown here\.$/).waitFor();
    expect(await parts.locator("img").count()).toBe(1);
    expect(await page.evaluate("globalThis.stolen")).toBeUndefined();
    expect(problems).toEqual([]);
  });
});

describe("approvals of calls", () => {
  const base = "/v1/tenants/careful";
  const wipe = (what: string): Promise<{ readonly body: { readonly id: string; readonly approvalId: string } }> =>
    suite.under.api("POST", `${base}/tools/wipe/calls`, { input: { what } });
  beforeAll(async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "careful" });
    const source = `export const description = "Erases a disk";
      export const annotations = { destructiveHint: true };
      export default ({ what }) => ({ wiped: what });`;
    await suite.under.api("POST", `${base}/tools`, { name: "wipe", source });
  });

  test("show the exact arguments, the tool and its effects, and who asked; approve and deny show what became of it", async () => {
    const { body: call } = await wipe("disk 7");
    const { page, problems, go } = await open();
    await go("/t/careful");
    // The overview leads there.
    await page.getByRole("link", { name: "1 call of wipe waits for approval" }).click();
    const card = page.getByRole("article", { name: "Call wipe v1" });
    await card.getByText('"disk 7"').waitFor();
    await card.getByText("Erases a disk").waitFor();
    await card.getByRole("list", { name: "Possible effects" }).getByText("destructive").waitFor();
    await card.getByText(/a program, over the API: .*key_/).waitFor();
    await card.getByLabel("Reason (optional)").fill("disk is empty");
    await card.getByRole("button", { name: "Approve" }).click();
    const outcome = page.getByRole("region", { name: "Decision about wipe" });
    await outcome.getByRole("heading", { name: "Approved: wipe" }).waitFor();
    await outcome.getByText('"wiped"').waitFor();
    await outcome.getByRole("status").getByText("succeeded").waitFor();
    await page.getByText("Nothing waits for approval").waitFor();

    const { body: second } = await wipe("disk 8");
    await card.getByText('"disk 8"').waitFor();
    // By keyboard: the reason, then the second button. What became of the call has the focus afterwards.
    await card.getByLabel("Reason (optional)").focus();
    await page.keyboard.insertText("not this one");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Denied: wipe" }).waitFor();
    expect(await page.evaluate("document.activeElement?.textContent")).toBe("Denied: wipe");
    await page.getByText("APPROVAL_REQUIRED").waitFor();
    expect((await suite.under.api<{ state: string }>("GET", `${base}/calls/${call.id}`)).body.state).toBe("succeeded");
    expect((await suite.under.api<{ state: string }>("GET", `${base}/calls/${second.id}`)).body.state).toBe("failed");

    await page.getByRole("tab", { name: "Decided" }).click();
    await page.getByText("disk is empty").waitFor();
    await page.getByText("not this one").waitFor();
    expect(problems).toEqual([]);
  });

  test("a call that waits says so on its page, and a key without the scope decides nothing", async () => {
    const { body: call } = await wipe("disk 9");
    const scopes = ["calls:read", "tools:read"];
    const { body } = await suite.under.api<{ key: string }>("POST", `${base}/keys`, { name: "reader", scopes });
    const { page, problems, go } = await open(body.key);
    await go(`/t/careful/calls/${call.id}`);
    await page.getByText("it waits until someone approves or denies it").waitFor();
    await page.getByRole("link", { name: "Go to the approvals" }).click();
    await page.getByText("A key with the scope calls:approve can decide.").waitFor();
    expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test("a key without the scope calls:read sees that the calls are missing, not that there are none", async () => {
    const { body } = await suite.under.api<{ key: string }>("POST", `${base}/keys`, {
      name: "deployer",
      scopes: ["tools:read"],
    });
    const { page, problems, go } = await open(body.key);
    await go("/t/careful/approvals");
    await page.getByText("Your key does not have the scope calls:read.").waitFor();
    expect(await page.getByText("Nothing waits for approval").count()).toBe(0);
    await page.getByRole("tab", { name: "Decided" }).click();
    await page.getByRole("tab", { name: "Decided", selected: true }).waitFor();
    await page.getByText("Your key does not have the scope calls:read.").waitFor();
    expect(await page.getByText("No call was decided yet").count()).toBe(0);
    expect(problems).toEqual([]);
  });
});
