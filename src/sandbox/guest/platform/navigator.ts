// navigator: packages read it to detect their runtime.
import { defineInterface } from "./webidl.ts";

const KEY = {};

export class Navigator {
  constructor(key: unknown = undefined) {
    if (key !== KEY) throw new TypeError("Navigator cannot be constructed");
  }

  get userAgent(): string {
    return "Glovebox";
  }
}

defineInterface("Navigator", Navigator);

export const navigator: Navigator = new Navigator(KEY);
