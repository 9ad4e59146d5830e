// Renders the OpenAPI document as one page without scripts, so that it needs nothing of another origin and its policy can forbid everything.
import { createHash } from "node:crypto";

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly operationId?: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: unknown;
  }[];
  readonly requestBody?: { readonly content?: { readonly [type: string]: { readonly schema?: unknown } } };
  readonly responses?: {
    readonly [status: string]: {
      readonly description?: string;
      readonly content?: { readonly [type: string]: { readonly schema?: unknown } };
    };
  };
}
interface Document {
  readonly info?: { readonly title?: string; readonly version?: string; readonly description?: string };
  readonly paths?: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components?: { readonly schemas?: { readonly [name: string]: unknown } };
}

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 0 auto; max-width: 60rem; padding: 1rem 1.5rem 4rem }
h1, h2, h3 { line-height: 1.2 } h3 code { font-size: 1rem }
section { border-top: 1px solid #8884; padding-top: .5rem }
code, pre { font: .875rem/1.45 ui-monospace, monospace } pre { background: #8882; border-radius: .375rem; overflow: auto; padding: .75rem }
table { border-collapse: collapse; width: 100% } td, th { border-bottom: 1px solid #8884; padding: .25rem .5rem .25rem 0; text-align: left; vertical-align: top }
nav ul { columns: 2; list-style: none; padding: 0 } .method { display: inline-block; font-weight: 600; min-width: 4rem }
`;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");
const CSP = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`;

const ESCAPES: { readonly [character: string]: string } = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escapeHtml = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");

/** Escapes text, and renders what is between backticks as code. */
const prose = (text = ""): string => escapeHtml(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");

function schemaHtml(schema: unknown): string {
  const name = /^#\/components\/schemas\/(.+)$/.exec(
    String((schema as { $ref?: string } | undefined)?.$ref ?? ""),
  )?.[1];
  if (name !== undefined) return `<a href="#schema-${escapeHtml(name)}"><code>${escapeHtml(name)}</code></a>`;
  return `<pre>${escapeHtml(JSON.stringify(schema ?? {}, null, 2))}</pre>`;
}

function operationHtml(method: string, path: string, operation: Operation): string {
  const { summary = "", description, operationId = "", parameters = [], requestBody, responses = {} } = operation;
  const rows = parameters.map(
    ({ name, in: where, required, schema }) =>
      `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(where)}${required === true ? ", required" : ""}</td><td>${schemaHtml(schema)}</td></tr>`,
  );
  const body = requestBody?.content?.["application/json"]?.schema;
  const answers = Object.entries(responses).map(([status, { description: text, content = {} }]) => {
    const [first] = Object.values(content);
    return `<tr><td>${escapeHtml(status)}</td><td>${prose(text)}</td><td>${first?.schema === undefined ? "" : schemaHtml(first.schema)}</td></tr>`;
  });
  return `<section id="${escapeHtml(operationId)}"><h3><code>${escapeHtml(method.toUpperCase())} ${escapeHtml(path)}</code></h3>
<p>${prose(summary)}${description === undefined || description === "" ? "" : `. ${prose(description)}`}</p>
${rows.length === 0 ? "" : `<table><tr><th>Parameter</th><th>In</th><th>Schema</th></tr>${rows.join("")}</table>`}
${body === undefined ? "" : `<p>Body: ${schemaHtml(body)}</p>`}
<table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>${answers.join("")}</table></section>`;
}

/** Returns the page and its Content-Security-Policy. */
export function renderReference(document: object): { readonly html: string; readonly csp: string } {
  const { info = {}, paths = {}, components = {} } = document as Document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const links = operations.map(
    ({ method, path, operation }) =>
      `<li><span class="method">${escapeHtml(method.toUpperCase())}</span><a href="#${escapeHtml(operation.operationId ?? "")}">${escapeHtml(path)}</a></li>`,
  );
  const schemas = Object.entries(components.schemas ?? {}).map(
    ([name, schema]) =>
      `<section id="schema-${escapeHtml(name)}"><h3>${escapeHtml(name)}</h3>${schemaHtml(schema)}</section>`,
  );
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(info.title ?? "API")} ${escapeHtml(info.version ?? "")}</title><style>${STYLE}</style></head><body>
<h1>${escapeHtml(info.title ?? "API")} <small>${escapeHtml(info.version ?? "")}</small></h1><p>${prose(info.description)}</p>
<p>The same as a document: <a href="/openapi.json">openapi.json</a></p>
<nav aria-label="Operations"><ul>${links.join("")}</ul></nav>
<h2>Operations</h2>${operations.map(({ method, path, operation }) => operationHtml(method, path, operation)).join("")}
<h2>Schemas</h2>${schemas.join("")}</body></html>`;
  return { html, csp: CSP };
}
