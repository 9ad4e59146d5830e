// Allowed elements, attributes and link protocols: a table based on GitHub's, which rehype-sanitize includes.
import { defaultSchema, type Options } from "rehype-sanitize";

/** Prefix of every id and name, so that none can shadow a property of the page's `document` ("DOM clobbering"). */
export const ID_PREFIX = "user-content-";

/** Removed with everything inside them: their text is code, a fallback or a trap for parsers, never prose. */
const STRIPPED = [
  "script",
  "style",
  "template",
  "title",
  "iframe",
  "object",
  "embed",
  "applet",
  "noscript",
  "noembed",
  "noframes",
  "xmp",
  "plaintext",
  "textarea",
  "select",
  "svg",
  "math",
];

const IMAGE_ELEMENTS = ["img", "picture", "source"];
/** These take a list of addresses in `srcset`, which the protocol check does not read. */
const NEVER_ALLOWED = ["picture", "source"];

export function createAllowedHtml(images: boolean): Options {
  const removed = images ? NEVER_ALLOWED : IMAGE_ELEMENTS;
  return {
    ...defaultSchema,
    tagNames: (defaultSchema.tagNames ?? []).filter((name) => !removed.includes(name)),
    strip: STRIPPED,
    clobberPrefix: ID_PREFIX,
    protocols: {
      ...defaultSchema.protocols,
      href: ["http", "https", "mailto", "tel"],
      src: ["http", "https"],
    },
    allowComments: false,
    allowDoctypes: false,
  };
}
