// Validates a guest's Python stack frames. They already name the author's files and lines; frames of other files are
// dropped, because a guest can forge them.
import { codeFrame, type MappedStack, type StackFrame, type StackMapper } from "../../bundler/compile/source-map.ts";

const MAX_STACK_LENGTH = 64 * 1024;
const MAX_HEADER_LENGTH = 4_096;
const MAX_FRAMES = 50;
const MAX_NAME_LENGTH = 120;
const FRAME = /^ {1,20}at (.{1,300}) \((.{1,1100}):(\d{1,7}):(\d{1,7})\)$/u;
const CONTROL = /[\p{Cc}\u2028\u2029]/gu;

function parseFrame(line: string, files: ReadonlyMap<string, string | undefined>): StackFrame | undefined {
  const [, name = "", file = "", lineText, columnText] = FRAME.exec(line.slice(0, 2_000)) ?? [];
  if (!files.has(file) || lineText === undefined || columnText === undefined) return undefined;
  const functionName = name.replace(CONTROL, " ").slice(0, MAX_NAME_LENGTH);
  return { file, line: Number(lineText), column: Math.max(1, Number(columnText)), functionName, isOwn: true };
}

const formatFrame = ({ file, line, column, functionName }: StackFrame): string =>
  `    at ${functionName} (${file}:${line}:${column})`;

/** @param files text by relative path; undefined for a file whose text differs in each call */
export function createPythonStackMapper(files: ReadonlyMap<string, string | undefined>): StackMapper {
  return {
    mapStack(stack): MappedStack {
      const lines = stack.slice(0, MAX_STACK_LENGTH).split("\n");
      const firstFrame = lines.findIndex((line) => FRAME.test(line.slice(0, 2_000)));
      const header = lines.slice(0, firstFrame < 0 ? lines.length : firstFrame).join("\n");
      const frames = lines
        .slice(firstFrame < 0 ? lines.length : firstFrame)
        .flatMap((line) => parseFrame(line, files) ?? [])
        .slice(0, MAX_FRAMES);
      return { stack: [header.slice(0, MAX_HEADER_LENGTH), ...frames.map(formatFrame)].join("\n"), frames };
    },
    mapText: (text) => text,
    mapLocation: () => undefined,
    codeFrameOf({ file, line, column }) {
      const text = files.get(file);
      return text === undefined ? undefined : codeFrame({ line, column, text });
    },
  };
}
