// Tests node:fs in a guest: it behaves like Node in a folder on disk, but in memory, and is empty in each call.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { inGuest, openGuest, runGuest } from "../../../support/guest.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

type Case = [why: string, run: (base: string) => unknown];

describe("node:fs", () => {
  test.for<Case>([
    [
      "writes, reads, lists and removes",
      (base) => {
        const fs = process.getBuiltinModule("node:fs");
        fs.mkdirSync(`${base}/a/b`, { recursive: true });
        fs.writeFileSync(`${base}/a/x.txt`, "ä");
        fs.appendFileSync(`${base}/a/x.txt`, "b");
        fs.writeFileSync(`${base}/a/b/y`, Buffer.from([1, 2]));
        fs.copyFileSync(`${base}/a/x.txt`, `${base}/z`);
        fs.renameSync(`${base}/z`, `${base}/w`);
        const stat = fs.statSync(`${base}/a/x.txt`);
        const listed = [
          fs.readdirSync(base).sort(),
          fs.readdirSync(base, { recursive: true }).sort(),
          fs
            .readdirSync(`${base}/a`, { withFileTypes: true })
            .map((entry) => [entry.name, entry.isFile(), entry.isDirectory()])
            .sort(),
        ];
        fs.cpSync(`${base}/a`, `${base}/c`, { recursive: true });
        fs.rmSync(`${base}/a`, { recursive: true });
        return [
          fs.readFileSync(`${base}/w`, "utf8"),
          [...fs.readFileSync(`${base}/c/b/y`)],
          [stat.size, stat.isFile(), stat.isDirectory(), stat.mtime instanceof Date],
          listed,
          fs.existsSync(`${base}/a`),
          fs.readdirSync(base).sort(),
        ];
      },
    ],
    [
      "writes the chunks of iterables and streams with its promise forms",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const { Readable } = process.getBuiltinModule("node:stream");
        const { writeFile, appendFile, open } = fs.promises;
        await writeFile(`${base}/stream`, Readable.from(["a", "b"]));
        await writeFile(`${base}/list`, ["é", Buffer.from("c")] as never, "latin1");
        await writeFile(`${base}/web`, new Response("body").body as never);
        await appendFile(`${base}/web`, ["!"] as never);
        const file = await open(`${base}/handle`, "w");
        await file.writeFile(new Set(["one", "two"]) as never);
        await file.appendFile("!");
        await writeFile(file, " end");
        await file.close();
        return [
          ...["stream", "web", "handle"].map((name) => fs.readFileSync(`${base}/${name}`, "utf8")),
          fs.readFileSync(`${base}/list`, "latin1"),
          await writeFile(`${base}/x`, [1] as never).catch((error) => error.code),
          await writeFile(`${base}/x`, {} as never).catch((error) => error.code),
        ];
      },
    ],
    [
      "gives the promises of util.promisify() both results",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const { promisify } = process.getBuiltinModule("node:util");
        const fd = fs.openSync(`${base}/f`, "w+");
        const written = await promisify(fs.write)(fd, Buffer.from("abcdef"), 0, 6, 0);
        const buffer = Buffer.alloc(3);
        const read = await promisify(fs.read)(fd, buffer, 0, 3, 1);
        const several = await promisify(fs.readv)(fd, [Buffer.alloc(2), Buffer.alloc(1)], 3);
        const { bytesWritten } = await promisify(fs.writev)(fd, [Buffer.from("xy"), Buffer.from("z")], 0);
        const options = await new Promise((resolve) =>
          fs.read(fd, { buffer: Buffer.alloc(2), position: 0 }, (_error, count, data) =>
            resolve([count, String(data)]),
          ),
        );
        const whole = await new Promise((resolve) =>
          fs.read(fd, (_error, count, data) => resolve([count, data.length])),
        );
        const file = await fs.promises.open(`${base}/f`);
        const first = await file.read({ buffer: Buffer.alloc(2), position: 1 });
        await file.close();
        return [
          whole,
          [first.bytesRead, String(first.buffer)],
          [written.bytesWritten, String(written.buffer)],
          [read.bytesRead, read.buffer === buffer, String(buffer)],
          [several.bytesRead, several.buffers.map(String)],
          bytesWritten,
          options,
        ];
      },
    ],
    [
      "gives the events of a new stream to listeners that are added after an await",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        fs.writeFileSync(`${base}/f`, "text");
        const missing = fs.createReadStream(`${base}/none`);
        const found = fs.createReadStream(`${base}/f`, "utf8");
        const written = fs.createWriteStream(`${base}/g`);
        written.end("written");
        for (let turn = 0; turn < 20; turn += 1) await null;
        const code = new Promise((resolve) =>
          missing.on("error", (error: NodeJS.ErrnoException) => resolve(error.code)),
        );
        const opened = new Promise((resolve) => found.on("open", (fd) => resolve(typeof fd)));
        const finished = new Promise((resolve) =>
          written.on("finish", () => resolve(fs.readFileSync(`${base}/g`, "utf8"))),
        );
        let text = "";
        for await (const chunk of found) text += chunk;
        return [await code, await opened, text, await finished];
      },
    ],
    [
      "copies what the filter lets through",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        fs.mkdirSync(`${base}/a/skipped`, { recursive: true });
        for (const name of ["x", "y", "skipped/z"]) fs.writeFileSync(`${base}/a/${name}`, name);
        const seen: string[] = [];
        const filter = (from: string, to: string): boolean => {
          seen.push(`${from.slice(base.length)} ${to.slice(base.length)}`);
          return !/y$|skipped$/.test(from);
        };
        fs.cpSync(`${base}/a`, `${base}/b`, { recursive: true, filter });
        await fs.promises.cp(`${base}/a`, `${base}/c`, {
          recursive: true,
          filter: async (...given) => filter(...given),
        });
        const failed = await new Promise((resolve) =>
          fs.cp(`${base}/a`, `${base}/d`, { recursive: true, filter }, (error) =>
            fs.cp(`${base}/none`, `${base}/e`, {}, (missing) => resolve([error, missing?.code])),
          ),
        );
        return [seen.sort(), ["b", "c", "d"].map((name) => fs.readdirSync(`${base}/${name}`).sort()), failed];
      },
    ],
    [
      "appends to files that share their bytes",
      (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const add = (name: string, text: string): void => fs.appendFileSync(`${base}/${name}`, text);
        add("a", "1");
        add("a", "2");
        fs.copyFileSync(`${base}/a`, `${base}/b`);
        add("a", "3");
        add("b", "4");
        add("a", "5");
        fs.truncateSync(`${base}/a`, 2);
        add("a", "6");
        add("b", "7");
        const before = fs.readFileSync(`${base}/b`);
        add("b", "8");
        fs.writeFileSync(`${base}/b`, "x", { flag: "r+" });
        add("b", "9");
        return ["a", "b"].map((name) => fs.readFileSync(`${base}/${name}`, "utf8")).concat(String(before));
      },
    ],
    [
      "fails as Node does",
      (base) => {
        const fs = process.getBuiltinModule("node:fs");
        fs.mkdirSync(`${base}/d`);
        fs.writeFileSync(`${base}/f`, "x");
        fs.mkdirSync(`${base}/full/in`, { recursive: true });
        return [
          () => fs.readFileSync(`${base}/none`),
          () => fs.readFileSync(`${base}/d`),
          () => fs.writeFileSync(`${base}/none/x`, ""),
          () => fs.writeFileSync(`${base}/d`, ""),
          () => fs.mkdirSync(`${base}/d`),
          () => fs.mkdirSync(`${base}/no/no`),
          () => fs.mkdirSync(`${base}/f/x`, { recursive: true }),
          () => fs.readdirSync(`${base}/f`),
          () => fs.rmdirSync(`${base}/full`),
          () => fs.unlinkSync(`${base}/none`),
          () => fs.rmSync(`${base}/none`),
          () => fs.rmSync(`${base}/none`, { force: true }),
          () => fs.writeFileSync(`${base}/f`, "", { flag: "wx" }),
          () => fs.statSync(`${base}/none`),
          () => fs.statSync(`${base}/none`, { throwIfNoEntry: false }),
          () => fs.renameSync(`${base}/none`, `${base}/x`),
          () => fs.accessSync(`${base}/none`),
          () => fs.closeSync(99),
          () => fs.openSync(`${base}/none`, "r"),
          () => fs.readFileSync(null as never),
        ].map((run) => {
          try {
            return [run() === undefined];
          } catch (error) {
            const { code, syscall, errno, message } = error as { [name: string]: unknown };
            return [code, syscall, errno, code === "ERR_FS_EISDIR" ? "" : String(message).replaceAll(base, "")];
          }
        });
      },
    ],
    [
      "follows links",
      (base) => {
        const fs = process.getBuiltinModule("node:fs");
        fs.mkdirSync(`${base}/real`);
        fs.writeFileSync(`${base}/real/f`, "linked");
        fs.symlinkSync("real", `${base}/link`);
        fs.symlinkSync("loop", `${base}/loop`);
        fs.linkSync(`${base}/real/f`, `${base}/hard`);
        fs.writeFileSync(`${base}/link/f`, "changed");
        const loop = (): unknown => {
          try {
            return fs.readFileSync(`${base}/loop`);
          } catch (error) {
            return (error as { code?: string }).code;
          }
        };
        return [
          fs.readFileSync(`${base}/link/../real/f`, "utf8"),
          fs.readFileSync(`${base}/hard`, "utf8"),
          fs.lstatSync(`${base}/link`).isSymbolicLink(),
          fs.statSync(`${base}/link`).isDirectory(),
          fs.readlinkSync(`${base}/link`),
          fs.realpathSync(`${base}/link/f`).replace(base, ""),
          fs.statSync(`${base}/hard`).nlink,
          loop(),
        ];
      },
    ],
    [
      "opens, seeks and truncates",
      (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const fd = fs.openSync(`${base}/f`, "w+");
        const written = [fs.writeSync(fd, "hello world"), fs.writeSync(fd, Buffer.from("HE"), 0, 2, 0)];
        const buffer = Buffer.alloc(5);
        const read = fs.readSync(fd, buffer, 0, 5, 0);
        fs.ftruncateSync(fd, 7);
        const { size } = fs.fstatSync(fd);
        fs.closeSync(fd);
        fs.truncateSync(`${base}/f`, 3);
        return [written, read, buffer.toString(), size, fs.readFileSync(`${base}/f`, "utf8")];
      },
    ],
    [
      "does the same with callbacks and promises",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const { promises } = fs;
        await promises.writeFile(`${base}/p`, "promised");
        const handle = await promises.open(`${base}/h`, "w+");
        await handle.write("handled");
        await handle.close();
        const text = await new Promise((resolve) =>
          fs.readFile(`${base}/p`, "utf8", (error, data) => resolve([error, data])),
        );
        const missing = await new Promise((resolve) => fs.readFile(`${base}/no`, (error) => resolve(error?.code)));
        const failed = await promises.readFile(`${base}/no`).catch((error: { code?: string }) => error.code);
        await promises.mkdir(`${base}/m/n`, { recursive: true });
        const made = await promises.mkdtemp(`${base}/t-`);
        await promises.rm(`${base}/m`, { recursive: true });
        const list = await promises.readdir(base);
        return [
          text,
          missing,
          failed,
          await promises.readFile(`${base}/h`, "utf8"),
          made.length - base.length,
          list.length,
        ];
      },
    ],
    [
      "streams",
      async (base) => {
        const fs = process.getBuiltinModule("node:fs");
        const { pipeline } = process.getBuiltinModule("node:stream/promises");
        fs.writeFileSync(`${base}/in`, "0123456789".repeat(20_000));
        const out = fs.createWriteStream(`${base}/out`);
        await pipeline(fs.createReadStream(`${base}/in`, { start: 5, end: 150_004 }), out);
        const missing = await new Promise((resolve) => {
          fs.createReadStream(`${base}/none`).on("error", (error) => resolve((error as { code?: string }).code));
        });
        let text = "";
        for await (const chunk of fs.createReadStream(`${base}/out`, { encoding: "utf8", end: 9 })) text += chunk;
        return [fs.statSync(`${base}/out`).size, out.bytesWritten, missing, text];
      },
    ],
  ])("%s", async ([, run]) => {
    const folder = mkdtempSync(join(tmpdir(), "glovebox-fs-"));
    folders.push(folder);
    const here = JSON.parse(JSON.stringify(await run(folder))) as unknown;
    const guest = await inGuest(`async () => {
      const base = "/tmp/" + "x".repeat(${folder.length - "/tmp/".length});
      process.getBuiltinModule("node:fs").mkdirSync(base);
      return await (${run})(base);
    }`);
    expect(guest).toEqual(here);
  });

  test("starts each call with only the files that the top level wrote", async () => {
    await using tool = await openGuest(`(() => {
      const fs = process.getBuiltinModule("fs");
      fs.writeFileSync("/tmp/loaded", "top level");
      return ({ name }) => {
        const seen = [fs.readdirSync("/"), fs.readdirSync("/tmp"), fs.readFileSync("/tmp/loaded", "utf8")];
        fs.writeFileSync("/" + name, "x");
        fs.writeFileSync("/tmp/loaded", "changed");
        fs.openSync("/" + name);
        return seen;
      };
    })()`);
    const fresh = [["tmp"], ["loaded"], "top level"];
    expect((await tool.call({ name: "a" })).value).toEqual(fresh);
    expect((await tool.call({ name: "b" })).value).toEqual(fresh);
  });

  test("appends many lines without a copy of the file for each", async () => {
    const { value } = await runGuest(
      async () => {
        const fs = process.getBuiltinModule("node:fs");
        const { finished } = process.getBuiltinModule("node:stream/promises");
        const line = "x".repeat(59);
        const file = fs.createWriteStream("/log");
        for (let index = 0; index < 20_000; index += 1) file.write(`${line}\n`);
        await finished(file.end());
        let copied = 0;
        const { set } = Uint8Array.prototype;
        Uint8Array.prototype.set = function (source, offset) {
          copied += source.length;
          set.call(this, source, offset);
        };
        for (let index = 0; index < 1_000; index += 1) fs.appendFileSync("/log", `${line}\n`);
        Uint8Array.prototype.set = set;
        return [fs.statSync("/log").size, copied < 20_000_000];
      },
      { memoryMiB: 256 },
    );
    expect(value).toEqual([21_000 * 60, true]);
  });

  test("an append in one call is not seen by the next one", async () => {
    await using tool = await openGuest(`(() => {
      const fs = process.getBuiltinModule("node:fs");
      fs.appendFileSync("/log", "a");
      fs.appendFileSync("/log", "b");
      return ({ text }) => {
        fs.appendFileSync("/log", text);
        return fs.readFileSync("/log", "utf8");
      };
    })()`);
    expect((await tool.call({ text: "one" })).value).toBe("abone");
    expect((await tool.call({ text: "2" })).value).toBe("ab2");
  });

  test("limits the bytes, and discloses nothing about the machine", async () => {
    const end = await runGuest(
      () => {
        const fs = process.getBuiltinModule("node:fs");
        const codes: unknown[] = ["/etc/passwd", "/proc/self/environ", "/dev/zero", "../../etc/passwd"].map((path) => {
          try {
            return fs.readFileSync(path, "utf8");
          } catch (error) {
            return (error as { code?: string }).code;
          }
        });
        try {
          for (let index = 0; ; index += 1) fs.writeFileSync(`/${index}`, Buffer.alloc(1_000_000));
        } catch (error) {
          codes.push((error as { code?: string }).code, fs.readdirSync("/").length);
        }
        return codes;
      },
      { memoryMiB: 256 },
    );
    expect(end.value).toEqual(["ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOSPC", 69]);
  });
});
