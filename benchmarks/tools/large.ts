// Three large libraries in one tool: the bundle is about half a megabyte or more, and most of it never runs.
import * as dates from "date-fns";
import * as lodash from "lodash-es";
import { z } from "zod";

const Input = z.object({ day: z.string(), numbers: z.array(z.number()) });
/** Names that are looked up at run time keep the bundler from dropping the rest. */
const libraries: { readonly [name: string]: object } = { dates, lodash };

export default (input: unknown): { readonly next: string; readonly sum: number; readonly exports: number } => {
  const { day, numbers } = Input.parse(input);
  return {
    next: dates.formatISO(dates.addDays(dates.parseISO(day), 1), { representation: "date" }),
    sum: lodash.sum(numbers),
    exports: Object.values(libraries).reduce((count, library) => count + Object.keys(library).length, 0),
  };
};
