// A real Chromium, and a server whose console it opens.
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { createServer, type Server, type ServerOptions } from "../../src/server/index.ts";
import { apiOf } from "../server/support/api.ts";
import { TestStores } from "../server/support/stores.ts";
import { browserPath } from "./browser-path.ts";

/** Longest time in ms for one step in a page, on a machine that does other work too. */
export const PATIENCE_MS = 200_000;

/**
 * Not the arguments that the browser's package proposes: those turn the same-origin policy off, and draw with an emulated graphics processor,
 * which needs more CPU time.
 */
const ARGUMENTS = ["--no-sandbox", "--no-zygote", "--font-render-hinting=none", "--disable-gpu", "--in-process-gpu"];
/** A name of this machine that is not known as its own: browsers trust it with HTTPS only. */
export const REMOTE_NAME = "console.test";

export const openBrowser = async (): Promise<Browser> =>
  await chromium.launch({
    executablePath: browserPath(),
    args: [...ARGUMENTS, `--host-resolver-rules=MAP ${REMOTE_NAME} 127.0.0.1`],
    headless: true,
    timeout: PATIENCE_MS,
  });

export interface ConsoleUnderTest extends AsyncDisposable {
  readonly server: Server;
  readonly api: ReturnType<typeof apiOf>;
  readonly key: string;
  /** Folder with the server's database. */
  readonly dataDir: string;
}

export async function openConsole(options: ServerOptions = {}): Promise<ConsoleUnderTest> {
  const stores = new TestStores();
  const store = await stores.create("sqlite");
  const server = await createServer({ ...store.options, port: 0, logLevel: "silent", ...options });
  return {
    server,
    api: apiOf(server),
    key: server.adminKey as string,
    dataDir: store.options.dataDir,
    [Symbol.asyncDispose]: async () => {
      await server.close({ drainMs: 0 });
      await stores[Symbol.asyncDispose]();
    },
  };
}

/** The console of one test file, and what opens it in a new browser context. */
export interface ConsoleForTests {
  readonly under: ConsoleUnderTest;
  readonly browser: Browser;
  readonly open: (key?: string) => Promise<Visit>;
}

/** Opens a console and a browser before the tests of a file, and closes both after them. */
export function useConsole(): ConsoleForTests {
  let opened: readonly [Browser, ConsoleUnderTest] | undefined;
  const parts = (): readonly [Browser, ConsoleUnderTest] => {
    if (opened === undefined) throw new Error("The console opens before the first test");
    return opened;
  };
  beforeAll(async () => {
    opened = await Promise.all([openBrowser(), openConsole()]);
  });
  afterAll(async () => {
    const [browser, under] = parts();
    await browser.close();
    await under[Symbol.asyncDispose]();
  });
  return {
    get browser() {
      return parts()[0];
    },
    get under() {
      return parts()[1];
    },
    open: async (key) => {
      const [browser, under] = parts();
      const visited = await visit(browser, under, key ?? under.key);
      onTestFinished(() => visited.context.close());
      return visited;
    },
  };
}

export interface Visit {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the page has reported: exceptions, and what its policy has blocked. */
  readonly problems: readonly string[];
  /** Opens a page of the console: a path such as `/t/acme/calls`. */
  readonly go: (path: string) => Promise<void>;
}

interface VisitOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: "light" | "dark";
}

/** Opens the console in a new context, and signs in with a key. */
export async function visit(
  browser: Browser,
  { server }: Pick<ConsoleUnderTest, "server">,
  key: string,
  { width = 1_440, height = 900, colorScheme = "light" }: VisitOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    // A response with an error status is not a problem of the page.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      problems.push(message.text());
  });
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(`${server.url}/console`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("main#content").waitFor();
  const go = async (path: string): Promise<void> => {
    await page.goto(`${server.url}/console${path}`);
  };
  return { context, page, problems, go };
}
