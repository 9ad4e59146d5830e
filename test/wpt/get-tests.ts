// Downloads the web-platform tests, which the repository does not contain. Node's tests include a copy, and Debian's source package of
// Node includes those.
// Needs apt and a Debian mirror, and fails with a message without them. `node test/wpt/get-tests.ts`
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { FETCHED_FOLDER, TESTS_FOLDER } from "./tests.ts";

/** Newest first. The list of a mirror may name files that are missing there. */
const DISTRIBUTIONS = ["unstable", "testing", "stable"] as const;
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const APT_SOURCES = "/etc/apt";
const FETCH_MS = 240_000;

/** Returns the Debian mirror in the configuration of apt. */
function findMirror(): string | undefined {
  const folder = join(APT_SOURCES, "sources.list.d");
  const files = [
    join(APT_SOURCES, "sources.list"),
    ...(existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []),
  ];
  const text = files
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
  return /^(?:URIs:|deb(?: \[[^\]]*\])?)\s+(https?:\/\/\S+\/debian)\/?(?:\s|$)/m.exec(text)?.[1];
}

function apt(config: string, words: readonly string[], cwd: string): void {
  execFileSync("apt-get", words, {
    cwd,
    env: { ...process.env, APT_CONFIG: config },
    stdio: "pipe",
    timeout: FETCH_MS,
  });
}

/** Returns the tarball with Node's tests from the first distribution that has it. */
function download(mirror: string, folder: string): string {
  const config = join(folder, "apt.conf");
  const sources = join(folder, "sources.list");
  for (const name of ["lists/partial", "cache/archives/partial"]) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(
    config,
    `Dir::Etc::SourceList "${sources}";\nDir::Etc::SourceParts "-";\nDir::State::Lists "${folder}/lists";\nDir::Cache "${folder}/cache";\nAPT::Sandbox::User "root";\n`,
  );
  const problems: string[] = [];
  for (const distribution of DISTRIBUTIONS) {
    writeFileSync(sources, `deb-src [signed-by=${KEYRING}] ${mirror} ${distribution} main\n`);
    try {
      apt(config, ["update", "-q"], folder);
      apt(config, ["source", "--download-only", "-q", "nodejs"], folder);
      const tarball = readdirSync(folder).find((name) => /^nodejs_.*\.orig\.tar\.xz$/.test(name));
      if (tarball !== undefined) return join(folder, tarball);
    } catch (error) {
      problems.push(`${distribution}: ${error instanceof Error ? error.message.split("\n").at(-2) : String(error)}`);
    }
  }
  throw new Error(`No distribution has the source of nodejs: ${problems.join("; ")}`);
}

function getTests(): void {
  const mirror = findMirror();
  if (mirror === undefined) throw new Error("This machine's apt knows no Debian mirror");
  const folder = mkdtempSync(join(tmpdir(), "glovebox-wpt-"));
  try {
    const tarball = download(mirror, folder);
    const unpacked = join(folder, "tests");
    mkdirSync(unpacked);
    execFileSync("tar", [
      "-xJf",
      tarball,
      "-C",
      unpacked,
      "--strip-components=4",
      "--wildcards",
      "*/test/fixtures/wpt/*",
    ]);
    mkdirSync(dirname(FETCHED_FOLDER), { recursive: true });
    rmSync(FETCHED_FOLDER, { recursive: true, force: true });
    renameSync(unpacked, FETCHED_FOLDER);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (existsSync(join(TESTS_FOLDER, "resources", "testharness.js"))) console.log("The web-platform tests are there");
else if (TESTS_FOLDER !== FETCHED_FOLDER) {
  console.error(
    "GLOVEBOX_WPT names a folder that holds no web-platform tests: expected resources/testharness.js in it",
  );
  process.exitCode = 1;
} else {
  try {
    getTests();
    console.log("The web-platform tests are there now");
  } catch (error) {
    console.error(`The web-platform tests could not be got: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
