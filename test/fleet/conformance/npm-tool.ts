// A tool that imports packages from npm: the command line bundles it with them.
import { Cron } from "croner";
import * as z from "zod";

const Input = z.object({ cron: z.string(), after: z.iso.datetime() });

export default (input: unknown): object => {
  const { cron, after } = Input.parse(input);
  const next = new Cron(cron, { timezone: "UTC" }).nextRun(new Date(after));
  return { next: next?.toISOString() };
};
