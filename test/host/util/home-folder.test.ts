// Where the caches and the credentials of the user are.
import { homedir, userInfo } from "node:os";
import { expect, test } from "vitest";
import { homeFolder } from "../../../src/host/util/home-folder.ts";

test("is HOME", () => {
  expect(homeFolder("/home/me")).toBe("/home/me");
  expect(homeFolder()).toBe(homedir());
});

test.for(["", ".", "home"])(
  "is that of the user database for HOME=%j, which would be below the working directory",
  (home) => {
    expect(homeFolder(home)).toBe(userInfo().homedir);
  },
);
