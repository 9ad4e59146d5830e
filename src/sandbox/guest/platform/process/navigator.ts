// navigator: packages read it to detect their runtime. It has the members of Node's, with values that reveal nothing of the machine.
import { defineInterface } from "../shared/webidl.ts";

const KEY = {};
const LANGUAGES: readonly string[] = Object.freeze(["en-US"]);

export class Navigator {
  constructor(key: unknown = undefined) {
    if (key !== KEY) throw new TypeError("Navigator cannot be constructed");
  }

  get userAgent(): string {
    return "Glovebox";
  }

  get platform(): string {
    return "";
  }

  get language(): string {
    return "en-US";
  }

  get languages(): readonly string[] {
    return LANGUAGES;
  }

  get hardwareConcurrency(): number {
    return 1;
  }
}

defineInterface("Navigator", Navigator);

export const navigator: Navigator = new Navigator(KEY);
