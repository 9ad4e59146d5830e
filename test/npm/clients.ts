// Programs that use HTTP clients of npm in their builds for Node. Data: what they return must be what Node returns.

/** A module's text; its default export is called with the origin of the server of http-clients.ts. */
export const CLIENTS: readonly (readonly [name: string, source: string])[] = [
  [
    "follow-redirects",
    `import fr from "follow-redirects"; export default ({ origin }) => new Promise((resolve, reject) => { const req = fr.http.request(origin + "/redirect", { method: "POST" }, (res) => { const parts = []; res.on("data", (c) => parts.push(c)); res.on("end", () => resolve([res.statusCode, res.responseUrl.slice(origin.length), JSON.parse(Buffer.concat(parts)).method])); }); req.on("error", reject); req.setTimeout(5000); req.end("body"); });`,
  ],
  [
    "got",
    `import got from "got"; export default async ({ origin }) => {
  const json = await got.post(origin + "/echo?a=1", { json: { a: [1] }, headers: { "x-mine": "b" }, retry: { limit: 0 } }).json();
  const zipped = await got(origin + "/gzip").text();
  const brotli = await got(origin + "/brotli").text();
  const redirected = await got(origin + "/redirect");
  const failed = await got(origin + "/status/404", { throwHttpErrors: false });
  const error = await got(origin + "/status/500", { retry: { limit: 0 } }).catch((e) => [e.name, e.code, e.response.statusCode, e.response.body]);
  const dropped = await got(origin + "/drop", { retry: { limit: 0 } }).catch((e) => [e.name, e.code, e.message]);
  const late = await got(origin + "/hang", { retry: { limit: 0 }, timeout: { request: 300 } }).catch((e) => [e.name, e.code]);
  const chunks = []; for await (const c of got.stream(origin + "/big")) chunks.push(c.length);
  const up = got.stream.post(origin + "/echo"); up.end("streamed"); let text = ""; for await (const c of up) text += c;
  const cookies = (await got(origin + "/cookies")).headers["set-cookie"];
  const head = await got.head(origin + "/echo");
  return [json.method, json.url, json.body, json.headers["content-type"], json.headers["x-mine"], zipped, brotli, JSON.parse(redirected.body).method, redirected.redirectUrls.length, failed.statusCode, error, dropped, late, chunks.reduce((a, b) => a + b), JSON.parse(text).body, cookies, head.statusCode, head.body, Object.keys(head.timings.phases).sort()];
};`,
  ],
  [
    "superagent",
    `import superagent from "superagent"; export default async ({ origin }) => {
  const a = await superagent.post(origin + "/echo").send({ a: 1 }).set("x-mine", "y").query({ q: "2" });
  const z = await superagent.get(origin + "/gzip").buffer(true);
  const r = await superagent.get(origin + "/redirect");
  const e = await superagent.get(origin + "/status/404").catch((x) => [x.status, x.message]);
  const d = await superagent.get(origin + "/drop").catch((x) => [x.code, x.message]);
  const t = await superagent.get(origin + "/hang").timeout({ response: 300, deadline: 1000 }).catch((x) => [x.code, x.timeout]);
  const f = await superagent.post(origin + "/echo").field("name", "value").attach("file", Buffer.from("contents"), "f.txt");
  const form = await superagent.post(origin + "/echo").type("form").send({ a: 1, b: "x y" });
  const agent = superagent.agent(); await agent.get(origin + "/cookies"); const again = await agent.get(origin + "/echo");
  return [a.body.method, a.body.url, a.body.body, a.body.headers["x-mine"], z.text, r.redirects.length, r.body.method, e, d, t, /name="file"; filename="f.txt"/.test(f.body.body), /contents/.test(f.body.body), form.body.body, again.body.headers.cookie];
};`,
  ],
  [
    "node-fetch",
    `import fetch, { FormData, Headers } from "node-fetch"; export default async ({ origin }) => {
  const a = await (await fetch(origin + "/echo", { method: "POST", body: JSON.stringify({ a: 1 }), headers: { "content-type": "application/json" } })).json();
  const z = await fetch(origin + "/gzip"); const zt = await z.text();
  const r = await fetch(origin + "/redirect"); const rt = await r.json();
  const m = await fetch(origin + "/redirect", { redirect: "manual" });
  const c = await fetch(origin + "/cookies"); 
  const d = await fetch(origin + "/drop").catch((e) => [e.name, e.code, e.type]);
  const cut = await fetch(origin + "/cut").then((x) => x.text()).catch((e) => [e.name, e.code, e.message.replace(origin, "")]);
  const chunked = await fetch(origin + "/chunked").then((x) => x.text());
  const form = new FormData(); form.set("a", "b"); const f = await (await fetch(origin + "/echo", { method: "POST", body: form })).json();
  const controller = new AbortController(); const p = fetch(origin + "/hang", { signal: controller.signal }).catch((e) => e.name); setTimeout(() => controller.abort(), 100);
  let n = 0; for await (const x of (await fetch(origin + "/big")).body) n += x.length;
  const empty = await fetch(origin + "/status/204");
  return [a.body, a.method, zt, r.redirected, rt.method, m.status, m.headers.get("location").replace(origin, ""), c.headers.raw()["set-cookie"], d, cut[0].endsWith("Error"), chunked, /name="a"/.test(f.body), await p, n, empty.status, await empty.text()];
};`,
  ],
  [
    "node-fetch-2",
    `import fetch from "node-fetch-2"; export default async ({ origin }) => {
  const a = await (await fetch(origin + "/echo", { method: "POST", body: "x" })).json();
  const z = await (await fetch(origin + "/gzip")).buffer();
  const r = await fetch(origin + "/redirect");
  const big = await fetch(origin + "/big"); let n = 0; await new Promise((resolve) => big.body.on("data", (c) => { n += c.length; }).on("end", resolve));
  const d = await fetch(origin + "/drop").catch((e) => [e.name, e.code, e.type]);
  const cut = await fetch(origin + "/cut").then((x) => x.text()).catch((e) => [e.name, e.code]);
  const chunked = await fetch(origin + "/chunked").then((x) => x.text());
  const late = await fetch(origin + "/hang", { timeout: 200 }).catch((e) => [e.name, e.type]);
  return [a.body, z.toString(), r.url.replace(origin, ""), n, d, cut, chunked, late];
};`,
  ],
  [
    "needle",
    `import needle from "needle"; export default async ({ origin }) => {
  const a = await needle("post", origin + "/echo", { a: 1, b: [2] }, { headers: { "x-mine": "w" } });
  const j = await needle("post", origin + "/echo", { a: 1 }, { json: true });
  const z = await needle("get", origin + "/gzip", { compressed: true });
  const r = await needle("get", origin + "/redirect", { follow_max: 3 });
  const d = await needle("get", origin + "/drop").catch((x) => [x.code, x.message]);
  const t = await needle("get", origin + "/hang", { response_timeout: 200 }).catch((x) => [x.code, x.message]);
  const n = await new Promise((resolve) => { let n = 0; needle.get(origin + "/big", {}).on("data", (c) => { n += c.length; }).on("done", () => resolve(n)); });
  const m = await needle("post", origin + "/echo", { file: { buffer: Buffer.from("abc"), filename: "f.txt", content_type: "text/plain" } }, { multipart: true });
  const c = await needle("get", origin + "/cookies");
  return [a.body.body, a.body.headers["x-mine"], j.body.body, z.body.toString(), r.body.method, d, t, n, /filename="f.txt"/.test(m.body.body), c.cookies];
};`,
  ],
  [
    "request",
    `import request from "request"; const run = (o) => new Promise((resolve) => request(o, (error, response, body) => resolve(error ? [error.code, error.message] : [response.statusCode, body]))); export default async ({ origin }) => {
  const a = await run({ method: "POST", url: origin + "/echo", json: { a: 1 } });
  const g = await run({ url: origin + "/gzip", gzip: true });
  const r = await run({ url: origin + "/redirect" });
  const d = await run({ url: origin + "/drop" });
  const t = await run({ url: origin + "/hang", timeout: 200 });
  const f = await run({ method: "POST", url: origin + "/echo", form: { a: "b c" } });
  const m = await run({ method: "POST", url: origin + "/echo", formData: { a: "b" } });
  const n = await new Promise((resolve) => { let n = 0; request(origin + "/big").on("data", (c) => { n += c.length; }).on("end", () => resolve(n)); });
  const x = await run({ url: origin + "/echo", forever: true, auth: { user: "u", pass: "p" } });
  return [a[1].body, g, JSON.parse(r[1]).method, d, t, JSON.parse(f[1]).body, /name="a"/.test(JSON.parse(m[1]).body), n, JSON.parse(x[1]).headers.authorization];
};`,
  ],
  [
    "make-fetch-happen",
    `import fetch from "make-fetch-happen"; export default async ({ origin }) => { const a = await (await fetch(origin + "/echo", { method: "POST", body: "x", retry: false })).json(); const g = await (await fetch(origin + "/gzip")).text(); const r = await fetch(origin + "/redirect"); const d = await fetch(origin + "/drop", { retry: false }).catch((e) => [e.code]); return [a.body, g, r.status, d]; };`,
  ],
  [
    "undici",
    `import { fetch, request, stream, Agent, Client, Pool, RetryAgent, interceptors } from "undici"; import { Writable, Readable } from "node:stream"; export default async ({ origin }) => {
  const attempt = (run) => run.catch((e) => [e.name, e.code, e.message, e.cause?.name]);
  const a = await (await request(origin + "/echo?a=1", { method: "POST", body: "x", headers: { "x-mine": "b" } })).body.json();
  const up = await (await request(origin + "/echo", { method: "PUT", body: Readable.from(["a", "b"]) })).body.json();
  const r = await fetch(origin + "/redirect"); const z = await (await fetch(origin + "/gzip")).text();
  const big = (await (await request(origin + "/big")).body.arrayBuffer()).byteLength;
  const errors = [await attempt(request(origin + "/drop")), await attempt(request(origin + "/cut").then((x) => x.body.text())), await attempt(fetch(origin + "/drop")), await attempt(request(origin + "/hang", { headersTimeout: 1000 })), await attempt(fetch(origin + "/hang", { signal: AbortSignal.timeout(50) }))];
  const parts = []; await stream(origin + "/chunked", { method: "GET" }, () => new Writable({ write(c, _e, done) { parts.push(String(c)); done(); } }));
  const pool = new Pool(origin); const all = await Promise.all([1, 2, 3].map((n) => pool.request({ path: "/echo?n=" + n, method: "GET" }).then((x) => x.body.json()))); await pool.close();
  const followed = await request(origin + "/redirect", { dispatcher: new Agent().compose(interceptors.redirect({ maxRedirections: 1 })) });
  const retried = await new RetryAgent(new Agent(), { maxRetries: 1, minTimeout: 1 }).request({ origin, path: "/status/404", method: "GET" });
  return [a.method, a.url, a.body, a.headers["x-mine"], up.body, r.redirected, (await r.json()).method, z, big, errors, parts.join(""), all.map((x) => x.url), followed.statusCode, retried.statusCode];
};`,
  ],
];

/**
 * Programs that use clients of HTTP APIs, called with the address of a server that answers every request. What they return and which requests they
 * send, apart from headers, must be the same as in Node.
 */
export const API_CLIENTS: readonly (readonly [name: string, source: string])[] = [
  [
    "openai",
    `import OpenAI from "openai"; export default async ({ api }) => { const client = new OpenAI({ apiKey: "k", baseURL: api + "/v1", maxRetries: 0 }); return (await client.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hi" }] })).method; };`,
  ],
  [
    "@anthropic-ai/sdk",
    `import Anthropic from "@anthropic-ai/sdk"; export default async ({ api }) => { const client = new Anthropic({ apiKey: "k", baseURL: api, maxRetries: 0 }); return (await client.messages.create({ model: "m", max_tokens: 5, messages: [{ role: "user", content: "hi" }] })).method; };`,
  ],
  [
    "stripe",
    `import Stripe from "stripe"; export default async ({ api }) => { const { hostname, port } = new URL(api); const client = new Stripe("sk_test_1", { host: hostname, port, protocol: "http", maxNetworkRetries: 0 }); return (await client.customers.create({ email: "a@b.example" })).method; };`,
  ],
  [
    "@slack/web-api",
    `import { WebClient } from "@slack/web-api"; export default async ({ api }) => { const client = new WebClient("xoxb", { slackApiUrl: api + "/api/", retryConfig: { retries: 0 } }); return (await client.chat.postMessage({ channel: "c", text: "t" })).ok; };`,
  ],
  [
    "@octokit/rest",
    `import { Octokit } from "@octokit/rest"; export default async ({ api }) => (await new Octokit({ auth: "t", baseUrl: api }).request("GET /repos/{owner}/{repo}", { owner: "a", repo: "b" })).status;`,
  ],
  [
    "@supabase/supabase-js",
    `import { createClient } from "@supabase/supabase-js"; export default async ({ api }) => (await createClient(api, "key").from("t").select("*").eq("a", 1)).status;`,
  ],
  [
    "@notionhq/client",
    `import { Client } from "@notionhq/client"; export default async ({ api }) => (await new Client({ auth: "t", baseUrl: api }).pages.retrieve({ page_id: "1" })).method;`,
  ],
  [
    "@sendgrid/mail",
    `import mail from "@sendgrid/mail"; export default async ({ api }) => { mail.setApiKey("SG.x"); mail.client.setDefaultRequest("baseUrl", api + "/"); const [{ statusCode }] = await mail.send({ to: "a@b.example", from: "c@d.example", subject: "s", text: "t" }); return statusCode; };`,
  ],
  [
    "groq-sdk",
    `import Groq from "groq-sdk"; export default async ({ api }) => typeof (await new Groq({ apiKey: "k", baseURL: api, maxRetries: 0 }).models.list());`,
  ],
  [
    "@mistralai/mistralai",
    `import { Mistral } from "@mistralai/mistralai"; export default async ({ api }) => await new Mistral({ apiKey: "k", serverURL: api }).models.list().then(() => "listed", ({ name }) => name);`,
  ],
  [
    "@google/genai",
    `import { GoogleGenAI } from "@google/genai"; export default async ({ api }) => typeof (await new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: api } }).models.generateContent({ model: "m", contents: "hi" }));`,
  ],
  [
    "@aws-sdk/client-s3",
    `import { PassThrough, Readable } from "node:stream"; import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3"; export default async ({ api }) => { const client = new S3Client({ region: "eu-central-1", endpoint: api, forcePathStyle: true, credentials: { accessKeyId: "a", secretAccessKey: "b" }, maxAttempts: 1 }); await client.send(new PutObjectCommand({ Bucket: "b", Key: "k", Body: "text" })); const { Body } = await client.send(new GetObjectCommand({ Bucket: "b", Key: "k" })); let piped = ""; for await (const chunk of Body.pipe(new PassThrough())) piped += chunk; return [JSON.parse(piped).method, Body instanceof Readable]; };`,
  ],
  [
    "replicate",
    `import Replicate from "replicate"; export default async ({ api }) => typeof (await new Replicate({ auth: "t", baseUrl: api }).models.get("a", "b"));`,
  ],
  [
    "axios",
    `import axios from "axios"; import { PassThrough } from "node:stream"; export default async ({ api, origin }) => {
  const { status, data } = await axios.post(api + "/a?b=1", { c: 2 }, { headers: { "x-mine": "1" } });
  const failed = await axios.get(api + "/status/404").catch(({ name, code, message, response }) => [name, code, message, response.status]);
  const bytes = (await axios.get(origin + "/gzip", { responseType: "arraybuffer" })).data;
  const stream = (await axios.get(origin + "/gzip", { responseType: "stream" })).data;
  let text = ""; for await (const chunk of stream.pipe(new PassThrough())) text += chunk;
  const redirected = await axios.get(origin + "/redirect"); const kept = await axios.get(origin + "/redirect", { maxRedirects: 0, validateStatus: null });
  const errors = []; for (const options of [{ url: "/hang", timeout: 200 }, { url: "/big", maxContentLength: 5 }]) errors.push(await axios({ baseURL: origin, ...options }).catch(({ name, code, message }) => [name, code, message]));
  const controller = new AbortController(); setTimeout(() => controller.abort(), 50); errors.push(await axios.get(origin + "/hang", { signal: controller.signal }).catch(({ name, code, message }) => [name, code, message]));
  const form = new FormData(); form.set("a", "1"); const posted = await axios.post(origin + "/echo", form);
  return [status, data.method, failed, Buffer.isBuffer(bytes), bytes.toString("base64"), text, redirected.data.url, redirected.request.res.responseUrl === origin + "/echo", kept.status, errors, posted.data.body.includes('name="a"')];
};`,
  ],
  [
    "ky",
    `import ky from "ky"; export default async ({ api }) => (await ky.post(api + "/k", { json: { a: 1 } }).json()).method;`,
  ],
  [
    "ofetch",
    `import { ofetch } from "ofetch"; export default async ({ api }) => (await ofetch(api + "/o", { method: "PUT", body: { a: 1 } })).method;`,
  ],
  [
    "@hubspot/api-client",
    `import { Client } from "@hubspot/api-client"; export default async ({ api }) => await new Client({ accessToken: "t", basePath: api, numberOfApiCallRetries: 0 }).crm.contacts.basicApi.getById("1").then((found) => typeof found, ({ name }) => name);`,
  ],
  [
    "@elastic/elasticsearch",
    `import { Client } from "@elastic/elasticsearch"; export default async ({ api }) => { const client = new Client({ node: api, maxRetries: 0 }); return await client.search({ index: "books", query: { match: { title: "x" } } }).then((x) => Object.keys(x).length, (e) => [e.name, e.message]); };`,
  ],
  [
    "@vercel/blob",
    `import { put, list } from "@vercel/blob"; export default async ({ api }) => { process.env.VERCEL_BLOB_API_URL = api; const token = "vercel_blob_rw_store_secret"; const attempt = (run) => run.then((x) => Object.keys(x).sort(), (e) => [e.name, e.message]); return [await attempt(put("a.txt", "text", { access: "public", token })), await attempt(list({ token }))]; };`,
  ],
  [
    "@qdrant/js-client-rest",
    `import { QdrantClient } from "@qdrant/js-client-rest"; export default async ({ api }) => { const client = new QdrantClient({ url: api, checkCompatibility: false }); return await client.getCollections().then((x) => typeof x, (e) => [e.name, e.message]); };`,
  ],
];
