// Popular npm packages of plain JavaScript, each with a tool that really uses it. Data: what it returns must be what Node returns.

import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";

/** A module's text; its default export is called without arguments. `features` are granted in addition to dynamic code. */
export const PACKAGES: readonly (readonly [name: string, source: string, features?: readonly EngineFeature[]])[] = [
  [
    "lodash",
    `import _ from "lodash"; export default () => [_.chunk([1,2,3,4,5], 2), _.groupBy(["a","bb","cc"], "length"), _.merge({a:{b:1}}, {a:{c:2}})];`,
  ],
  [
    "lodash-es",
    `import { uniqBy, orderBy, camelCase } from "lodash-es"; export default () => [uniqBy([{a:1},{a:1}], "a"), orderBy([3,1,2]), camelCase("Foo Bar")];`,
  ],
  [
    "underscore",
    `import _ from "underscore"; export default () => [_.range(5), _.pluck([{a:1}], "a"), _.sortBy([3,1,2])];`,
  ],
  [
    "ramda",
    `import * as R from "ramda"; export default () => [R.pipe(R.map(R.inc), R.filter(R.gt(3)))([1,2,3]), R.path(["a","b"], {a:{b:1}})];`,
  ],
  ["remeda", `import { pipe, map, sum } from "remeda"; export default () => pipe([1,2,3], map((x) => x * 2), sum());`],
  ["immer", `import { produce } from "immer"; export default () => produce({ a: [1] }, (d) => { d.a.push(2); });`],
  [
    "immutable",
    `import { Map, List, fromJS } from "immutable"; export default () => [Map({a:1}).set("b", 2).toJS(), List([1,2]).push(3).toJS(), fromJS({a:{b:1}}).getIn(["a","b"])];`,
  ],
  [
    "rxjs",
    `import { from, map, filter, toArray, lastValueFrom, delay } from "rxjs"; export default () => lastValueFrom(from([1,2,3,4]).pipe(filter((x) => x % 2 === 0), map((x) => x * 10), delay(1), toArray()));`,
  ],
  ["async", `import async from "async"; export default () => async.mapLimit([1,2,3], 2, async (x) => x * 2);`],
  [
    "bluebird",
    `import Bluebird from "bluebird"; export default async () => await Bluebird.map([1,2,3], (x) => Bluebird.delay(1).then(() => x * 2), { concurrency: 2 });`,
  ],
  [
    "p-limit",
    `import pLimit from "p-limit"; export default () => { const limit = pLimit(1); return Promise.all([1,2].map((x) => limit(async () => x))); };`,
  ],
  [
    "p-queue",
    `import PQueue from "p-queue"; export default async () => { const q = new PQueue({ concurrency: 1 }); return [await q.add(() => 1), await q.add(async () => 2)]; };`,
  ],
  ["p-map", `import pMap from "p-map"; export default () => pMap([1,2,3], async (x) => x + 1, { concurrency: 2 });`],
  [
    "p-retry",
    `import pRetry from "p-retry"; export default () => { let n = 0; return pRetry(() => { n += 1; if (n < 2) throw new Error("x"); return n; }, { minTimeout: 1 }); };`,
  ],
  [
    "date-fns",
    `import { addDays, formatISO, differenceInDays, format } from "date-fns"; export default () => [addDays(new Date(0), 3).toISOString(), differenceInDays(new Date(864e6), new Date(0)), format(new Date(Date.UTC(2020, 1, 3)), "yyyy-MM-dd")];`,
  ],
  [
    "dayjs",
    `import dayjs from "dayjs"; import utc from "dayjs/plugin/utc.js"; dayjs.extend(utc); export default () => dayjs.utc("2020-01-31").add(1, "month").format("YYYY-MM-DD dddd");`,
  ],
  [
    "luxon",
    `import { DateTime, Duration } from "luxon"; export default () => [DateTime.fromISO("2020-01-01T00:00:00Z", { zone: "utc" }).plus({ days: 1 }).toISO(), Duration.fromObject({ hours: 2 }).as("minutes")];`,
  ],
  [
    "moment",
    `import moment from "moment"; export default () => [moment.utc("2020-01-01").add(2, "weeks").format("LLLL"), moment.utc("2024-03-01").locale("de").format("LLLL")];`,
  ],
  ["ms", `import ms from "ms"; export default () => [ms("2 days"), ms(60000, { long: true })];`],
  [
    "cron-parser",
    `import { CronExpressionParser } from "cron-parser"; export default () => CronExpressionParser.parse("0 12 * * 1", { currentDate: "2020-01-01T00:00:00Z", tz: "UTC" }).next().toISOString();`,
  ],
  [
    "zod",
    `import { z } from "zod"; export default () => [z.object({ a: z.coerce.number() }).parse({ a: "1" }), z.string().email().safeParse("x").success];`,
  ],
  [
    "yup",
    `import * as yup from "yup"; export default () => yup.object({ a: yup.number().required() }).validate({ a: "5" });`,
  ],
  [
    "joi",
    `import Joi from "joi"; export default () => [Joi.object({ a: Joi.number().min(1) }).validate({ a: "3" }).value, Joi.string().validate(1).error?.message];`,
  ],
  [
    "valibot",
    `import * as v from "valibot"; export default () => v.parse(v.object({ a: v.pipe(v.string(), v.minLength(1)) }), { a: "x" });`,
  ],
  [
    "superstruct",
    `import { object, number, is } from "superstruct"; export default () => [is({ a: 1 }, object({ a: number() })), is({ a: "1" }, object({ a: number() }))];`,
  ],
  [
    "validator",
    `import validator from "validator"; export default () => [validator.isEmail("a@b.co"), validator.isURL("http://x.y"), validator.escape("<a>")];`,
  ],
  [
    "jsonschema",
    `import { validate } from "jsonschema"; export default () => validate({ a: 1 }, { type: "object", properties: { a: { type: "string" } } }).errors.map(String);`,
  ],
  [
    "@cfworker/json-schema",
    `import { Validator } from "@cfworker/json-schema"; export default () => new Validator({ type: "number" }).validate("x").valid;`,
  ],
  [
    "uuid",
    `import { v4, v5, validate, parse, stringify } from "uuid"; export default () => [validate(v4()), v5("a", v5.DNS), stringify(parse("6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b"))];`,
  ],
  [
    "nanoid",
    `import { nanoid, customAlphabet } from "nanoid"; export default () => [nanoid().length, customAlphabet("a", 5)()];`,
  ],
  ["ulid", `import { ulid, decodeTime } from "ulid"; export default () => [ulid(0).length, decodeTime(ulid(1234))];`],
  [
    "object-hash",
    `import hash from "object-hash"; export default () => [hash({ a: 1, b: [2] }), hash({ b: [2], a: 1 }, { algorithm: "md5" })];`,
  ],
  ["md5", `import md5 from "md5"; export default () => md5("hello");`],
  [
    "crypto-js",
    `import CryptoJS from "crypto-js"; export default () => [CryptoJS.SHA256("a").toString(), CryptoJS.AES.decrypt(CryptoJS.AES.encrypt("x", "k").toString(), "k").toString(CryptoJS.enc.Utf8)];`,
  ],
  [
    "bcryptjs",
    `import bcrypt from "bcryptjs"; export default async () => bcrypt.compare("x", await bcrypt.hash("x", 4));`,
  ],
  [
    "jsonwebtoken",
    `import { createPublicKey, generateKeyPairSync } from "node:crypto"; import jwt from "jsonwebtoken"; export default () => { const token = jwt.sign({ a: 1, iat: 1 }, "secret"); const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 }); const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }); const signed = [["RS256", privateKey.export({ type: "pkcs8", format: "pem" }), createPublicKey(privateKey)], ["ES256", ec.privateKey, ec.publicKey]].map(([algorithm, key, open]) => { const made = jwt.sign({ a: 1, iat: 1 }, key, { algorithm }); try { jwt.verify(made + "x", open); return "forged"; } catch { return jwt.verify(made, open); } }); return [token, jwt.verify(token, "secret"), signed]; };`,
  ],
  [
    "jose",
    `import { generateKeyPairSync } from "node:crypto"; import { exportJWK, generateKeyPair, importPKCS8, SignJWT, jwtVerify } from "jose"; export default async () => { const key = new TextEncoder().encode("0123456789abcdef0123456789abcdef"); const jwt = await new SignJWT({ a: 1 }).setProtectedHeader({ alg: "HS256" }).sign(key); const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 }); const pem = privateKey.export({ type: "pkcs8", format: "pem" }); const rs = await new SignJWT({ b: 2 }).setProtectedHeader({ alg: "RS256" }).sign(await importPKCS8(pem, "RS256")); const es = await generateKeyPair("ES256", { extractable: true }); const signed = await new SignJWT({ c: 3 }).setProtectedHeader({ alg: "ES256" }).sign(es.privateKey); return [(await jwtVerify(jwt, key)).payload, (await jwtVerify(rs, publicKey)).payload, (await jwtVerify(signed, es.publicKey)).payload, (await exportJWK(es.publicKey)).kty]; };`,
  ],
  [
    "@noble/hashes",
    `import { sha256 } from "@noble/hashes/sha2.js"; import { bytesToHex } from "@noble/hashes/utils.js"; export default () => bytesToHex(sha256(new Uint8Array([1,2,3])));`,
  ],
  [
    "@noble/curves",
    `import { ed25519 } from "@noble/curves/ed25519.js"; export default () => { const k = new Uint8Array(32).fill(7); const m = new Uint8Array([1]); return ed25519.verify(ed25519.sign(m, k), m, ed25519.getPublicKey(k)); };`,
  ],
  [
    "tweetnacl",
    `import nacl from "tweetnacl"; export default () => { const k = nacl.box.keyPair.fromSecretKey(new Uint8Array(32).fill(1)); return [...k.publicKey].slice(0, 4).concat(nacl.hash(new Uint8Array(1)).length); };`,
  ],
  ["js-sha256", `import { sha256 } from "js-sha256"; export default () => sha256("x");`],
  ["hash.js", `import hash from "hash.js"; export default () => hash.sha512().update("a").digest("hex");`],
  [
    "elliptic",
    `import elliptic from "elliptic"; export default () => { const ec = new elliptic.ec("secp256k1"); const k = ec.keyFromPrivate("01".repeat(32), "hex"); return [k.getPublic("hex"), k.verify("aa", k.sign("aa"))]; };`,
  ],
  [
    "node-forge",
    `import forge from "node-forge"; export default () => { const md = forge.md.sha1.create(); md.update("x"); return md.digest().toHex(); };`,
  ],
  [
    "otpauth",
    `import { TOTP } from "otpauth"; export default () => new TOTP({ secret: "NB2W45DFOIZA" }).generate({ timestamp: 0 });`,
  ],
  [
    "bn.js",
    `import BN from "bn.js"; export default () => new BN("123456789012345678901234567890").mul(new BN(7)).toString(16);`,
  ],
  [
    "bignumber.js",
    `import BigNumber from "bignumber.js"; export default () => new BigNumber("0.1").plus("0.2").toString();`,
  ],
  ["decimal.js", `import { Decimal } from "decimal.js"; export default () => new Decimal(2).sqrt().toFixed(30);`],
  ["big.js", `import Big from "big.js"; export default () => new Big("1").div(3).toString();`],
  [
    "mathjs",
    `import { evaluate, matrix, inv } from "mathjs"; export default () => [evaluate("12 / (2.3 + 0.7)"), inv(matrix([[1,2],[3,4]])).toArray()];`,
  ],
  [
    "simple-statistics",
    `import { mean, standardDeviation, linearRegression } from "simple-statistics"; export default () => [mean([1,2,3]), standardDeviation([1,2,3]), linearRegression([[0,0],[1,2]])];`,
  ],
  [
    "ml-matrix",
    `import { Matrix } from "ml-matrix"; export default () => new Matrix([[1,2],[3,4]]).mmul(Matrix.eye(2)).to2DArray();`,
  ],
  [
    "fraction.js",
    `import Fraction from "fraction.js"; export default () => new Fraction("0.(3)").add("1/6").toFraction();`,
  ],
  ["seedrandom", `import seedrandom from "seedrandom"; export default () => seedrandom("hello")();`],
  [
    "papaparse",
    `import Papa from "papaparse"; export default () => [Papa.parse("a,b\\n1,2", { header: true }).data, Papa.unparse([{ a: 1 }])];`,
  ],
  [
    "csv-parse",
    `import { parse } from "csv-parse/sync"; export default () => parse("a,b\\n1,\\"2,3\\"", { columns: true });`,
  ],
  [
    "csv-stringify",
    `import { stringify } from "csv-stringify/sync"; export default () => stringify([["a", 'b"c'], [1, 2]]);`,
  ],
  [
    "fast-csv",
    `import { parseString } from "fast-csv"; export default () => new Promise((resolve, reject) => { const rows = []; parseString("a,b\\n1,2", { headers: true }).on("error", reject).on("data", (r) => rows.push(r)).on("end", () => resolve(rows)); });`,
  ],
  [
    "yaml",
    `import YAML from "yaml"; export default () => [YAML.parse("a: [1, 2]\\nb:\\n  c: x"), YAML.stringify({ a: { b: 1 } })];`,
  ],
  [
    "js-yaml",
    `import * as yaml from "js-yaml"; export default () => [yaml.load("a: 1\\nb: [x, y]"), yaml.dump({ a: [1] })];`,
  ],
  ["toml", `import toml from "toml"; export default () => toml.parse("[a]\\nb = 1");`],
  [
    "smol-toml",
    `import { parse, stringify } from "smol-toml"; export default () => [parse("a = 1"), stringify({ b: { c: "x" } })];`,
  ],
  ["ini", `import ini from "ini"; export default () => [ini.parse("[a]\\nb=1"), ini.stringify({ a: { b: 1 } })];`],
  ["json5", `import JSON5 from "json5"; export default () => JSON5.parse("{a: 1, /* c */ b: 'x',}");`],
  ["jsonc-parser", `import { parse } from "jsonc-parser"; export default () => parse("{ // c\\n \\"a\\": 1 }");`],
  [
    "fast-json-stable-stringify",
    `import stringify from "fast-json-stable-stringify"; export default () => stringify({ b: 1, a: [2] });`,
  ],
  [
    "flatted",
    `import { stringify, parse } from "flatted"; export default () => { const a = [1]; a.push(a); return parse(stringify(a))[1][0]; };`,
  ],
  [
    "superjson",
    `import superjson from "superjson"; export default () => superjson.parse(superjson.stringify({ d: new Date(0), s: new Set([1]) })).d.toISOString();`,
  ],
  [
    "devalue",
    `import { stringify, parse } from "devalue"; export default () => [...parse(stringify(new Map([[1, 2]])))];`,
  ],
  [
    "qs",
    `import qs from "qs"; export default () => [qs.parse("a[b][]=1&a[b][]=2"), qs.stringify({ a: { b: [1, 2] } })];`,
  ],
  [
    "query-string",
    `import qs from "query-string"; export default () => [qs.parse("?a=1&a=2"), qs.stringify({ b: [1, 2] }, { arrayFormat: "bracket" })];`,
  ],
  ["url-join", `import urlJoin from "url-join"; export default () => urlJoin("http://a.b/", "/c/", "?d=1");`],
  ["whatwg-url", `import { URL } from "whatwg-url"; export default () => new URL("../x", "https://ex.com/a/b").href;`],
  ["path-to-regexp", `import { match } from "path-to-regexp"; export default () => match("/a/:id")("/a/5").params;`],
  ["mime", `import mime from "mime"; export default () => [mime.getType("a.json"), mime.getExtension("text/html")];`],
  [
    "mime-types",
    `import mime from "mime-types"; export default () => [mime.lookup("x.png"), mime.contentType("html")];`,
  ],
  [
    "content-type",
    `import * as contentType from "content-type"; export default () => contentType.parse("text/html; charset=utf-8");`,
  ],
  [
    "cookie",
    `import * as cookie from "cookie"; export default () => { const parse = cookie.parseCookie ?? cookie.parse; return { ...parse("a=b; c=d%20e") }; };`,
  ],
  [
    "tough-cookie",
    `import { CookieJar } from "tough-cookie"; export default async () => { const jar = new CookieJar(); await jar.setCookie("a=b; Path=/", "http://ex.com/"); return jar.getCookieString("http://ex.com/"); };`,
  ],
  [
    "handlebars",
    `import Handlebars from "handlebars"; export default () => Handlebars.parse("Hi {{name}}").body.length;`,
  ],
  [
    "mustache",
    `import Mustache from "mustache"; export default () => Mustache.render("Hi {{name}}{{#xs}} {{.}}{{/xs}}", { name: "<b>", xs: [1, 2] });`,
  ],
  ["nunjucks", `import nunjucks from "nunjucks"; export default () => nunjucks.lib.escape("<a>");`],
  [
    "liquidjs",
    `import { Liquid } from "liquidjs"; export default () => new Liquid().parseAndRender("{{ a | upcase }}{% for x in xs %}{{ x }}{% endfor %}", { a: "hi", xs: [1, 2] });`,
  ],
  ["eta", `import { Eta } from "eta"; export default () => typeof new Eta().parse("Hi <%= it.a %>").length;`],
  ["marked", `import { marked } from "marked"; export default () => marked.parse("# Hi\\n\\n- a\\n- b");`],
  [
    "markdown-it",
    `import MarkdownIt from "markdown-it"; export default () => new MarkdownIt({ linkify: true }).render("**x** http://a.b");`,
  ],
  ["showdown", `import showdown from "showdown"; export default () => new showdown.Converter().makeHtml("# a");`],
  ["micromark", `import { micromark } from "micromark"; export default () => micromark("*a* [b](c)");`],
  [
    "remark-parse",
    `import { unified } from "unified"; import remarkParse from "remark-parse"; export default () => unified().use(remarkParse).parse("# a").children[0].type;`,
  ],
  [
    "unified",
    `import { unified } from "unified"; import remarkParse from "remark-parse"; import remarkRehype from "remark-rehype"; import rehypeStringify from "rehype-stringify"; export default async () => String(await unified().use(remarkParse).use(remarkRehype).use(rehypeStringify).process("# a"));`,
  ],
  ["turndown", `import TurndownService from "turndown"; export default () => new TurndownService().escape("*a*");`],
  [
    "html-to-text",
    `import { convert } from "html-to-text"; export default () => convert("<h1>a</h1><p>b <a href='c'>d</a></p>");`,
  ],
  [
    "cheerio",
    `import * as cheerio from "cheerio"; import { load } from "cheerio/slim"; export default () => { const $ = load("<ul><li class='a'>1</li><li>2</li></ul>"); return [$("li.a").text(), $("li").length, cheerio.loadBuffer(Buffer.from("<p>é</p>")).text(), typeof cheerio.fromURL]; };`,
  ],
  [
    "htmlparser2",
    `import { parseDocument, DomUtils } from "htmlparser2"; export default () => DomUtils.textContent(parseDocument("<p>a<b>c</b></p>"));`,
  ],
  ["parse5", `import { parse, serialize } from "parse5"; export default () => serialize(parse("<p>a"));`],
  [
    "linkedom",
    `import { parseHTML } from "linkedom"; export default () => parseHTML("<p id=a>x</p>").document.querySelector("#a").textContent;`,
  ],
  [
    "sanitize-html",
    `import sanitize from "sanitize-html"; export default () => sanitize("<p onclick=x>a<script>b</script></p>");`,
  ],
  ["he", `import * as he from "he"; export default () => [he.encode("<é>"), he.decode("&lt;&eacute;&gt;")];`],
  [
    "entities",
    `import { encodeXML, decodeHTML } from "entities"; export default () => [encodeXML("<a>"), decodeHTML("&amp;")];`,
  ],
  [
    "fast-xml-parser",
    `import { XMLParser, XMLBuilder } from "fast-xml-parser"; export default () => [new XMLParser({ ignoreAttributes: false }).parse("<a b='1'><c>2</c></a>"), new XMLBuilder().build({ a: { b: 1 } })];`,
  ],
  [
    "xml2js",
    `import xml2js from "xml2js"; export default async () => xml2js.parseStringPromise("<a><b>1</b><b>2</b></a>");`,
  ],
  ["xml-js", `import convert from "xml-js"; export default () => convert.xml2js("<a b='1'/>", { compact: true });`],
  [
    "sax",
    `import sax from "sax"; export default () => { const seen = []; const p = sax.parser(true); p.onopentag = (t) => seen.push(t.name); p.write("<a><b/></a>").close(); return seen; };`,
  ],
  [
    "xmlbuilder2",
    `import { create } from "xmlbuilder2"; export default () => create().ele("a").ele("b").txt("c").end();`,
  ],
  [
    "@xmldom/xmldom",
    `import { DOMParser } from "@xmldom/xmldom"; export default () => new DOMParser().parseFromString("<a><b>c</b></a>", "text/xml").getElementsByTagName("b")[0].textContent;`,
  ],
  [
    "xpath",
    `import xpath from "xpath"; import { DOMParser } from "@xmldom/xmldom"; export default () => xpath.select("string(//b)", new DOMParser().parseFromString("<a><b>c</b></a>", "text/xml"));`,
  ],
  [
    "rss-parser",
    `import Parser from "rss-parser"; export default async () => (await new Parser().parseString("<rss version='2.0'><channel><title>t</title><item><title>i</title></item></channel></rss>")).items[0].title;`,
  ],
  ["postcss", `import postcss from "postcss"; export default () => postcss.parse("a { color: red }").toString();`],
  [
    "css-tree",
    `import * as csstree from "css-tree"; export default () => csstree.generate(csstree.parse("a { color:  red; }"));`,
  ],
  [
    "css-select",
    `import { selectOne } from "css-select"; import { parseDocument } from "htmlparser2"; export default () => selectOne("p > b", parseDocument("<p><b>x</b></p>"))?.name;`,
  ],
  [
    "clean-css",
    `import CleanCSS from "clean-css"; export default () => new CleanCSS().minify("a { color: red; } b { color: #ff0000 }").styles;`,
  ],
  [
    "acorn",
    `import { parse } from "acorn"; export default () => parse("let a = 1", { ecmaVersion: 2022 }).body[0].type;`,
  ],
  ["esprima", `import esprima from "esprima"; export default () => esprima.parseScript("var a = 1").body.length;`],
  [
    "espree",
    `import * as espree from "espree"; export default () => espree.parse("a => a", { ecmaVersion: 2022 }).body.length;`,
  ],
  [
    "escodegen",
    `import escodegen from "escodegen"; import { parse } from "acorn"; export default () => escodegen.generate(parse("let  a=1", { ecmaVersion: 2022 }));`,
  ],
  [
    "estraverse",
    `import estraverse from "estraverse"; import { parse } from "acorn"; export default () => { let n = 0; estraverse.traverse(parse("a(b(c))", { ecmaVersion: 2022 }), { enter() { n += 1; } }); return n; };`,
  ],
  [
    "@babel/parser",
    `import { parse } from "@babel/parser"; export default () => parse("const a: number = 1", { plugins: ["typescript"] }).program.body[0].type;`,
  ],
  [
    "magic-string",
    `import MagicString from "magic-string"; export default () => new MagicString("abc").overwrite(0, 1, "x").append("!").toString();`,
  ],
  [
    "prettier",
    `import * as prettier from "prettier/standalone"; import babel from "prettier/plugins/babel"; import estree from "prettier/plugins/estree"; export default () => prettier.format("a  =  1", { parser: "babel", plugins: [babel, estree] });`,
  ],
  [
    "terser",
    `import { minify } from "terser"; export default async () => (await minify("function add(first, second) { return first + second; }")).code;`,
  ],
  [
    "sucrase",
    `import { transform } from "sucrase"; export default () => transform("const a: number = 1", { transforms: ["typescript"] }).code;`,
  ],
  [
    "graphql",
    `import { graphql, buildSchema } from "graphql"; export default async () => JSON.parse(JSON.stringify(await graphql({ schema: buildSchema("type Query { a: Int }"), source: "{ a }", rootValue: { a: 1 } })));`,
  ],
  [
    "protobufjs",
    `import protobuf from "protobufjs/light.js"; export default () => { const w = protobuf.Writer.create().uint32(8).string("abc").finish(); return [...w]; };`,
  ],
  [
    "@bufbuild/protobuf",
    `import { toBinary, create, toJson } from "@bufbuild/protobuf"; import { TimestampSchema } from "@bufbuild/protobuf/wkt"; export default () => [[...toBinary(TimestampSchema, create(TimestampSchema, { seconds: 5n }))], toJson(TimestampSchema, create(TimestampSchema, { seconds: 5n }))];`,
  ],
  [
    "@msgpack/msgpack",
    `import { encode, decode } from "@msgpack/msgpack"; export default () => decode(encode({ a: [1, "x", null] }));`,
  ],
  [
    "cbor-x",
    `import { encode, decode } from "cbor-x/index-no-eval"; export default () => decode(encode({ a: [1, 2] }));`,
  ],
  ["bson", `import { BSON } from "bson"; export default () => BSON.deserialize(BSON.serialize({ a: 1, b: "x" }));`],
  [
    "pako",
    `import * as pako from "pako"; export default () => new TextDecoder().decode(pako.inflate(pako.deflate(new TextEncoder().encode("hello"))));`,
  ],
  [
    "fflate",
    `import { gzipSync, gunzipSync, zipSync, unzipSync, strToU8, strFromU8 } from "fflate"; export default () => [strFromU8(gunzipSync(gzipSync(strToU8("x")))), Object.keys(unzipSync(zipSync({ a: strToU8("b") })))];`,
  ],
  [
    "jszip",
    `import JSZip from "jszip"; export default async () => { const zip = new JSZip(); zip.file("a.txt", "hello"); const data = await zip.generateAsync({ type: "uint8array" }); return (await JSZip.loadAsync(data)).file("a.txt").async("string"); };`,
  ],
  [
    "adm-zip",
    `import AdmZip from "adm-zip"; export default () => { const zip = new AdmZip(); zip.addFile("a", Buffer.from("hi")); return new AdmZip(zip.toBuffer()).readAsText("a"); };`,
  ],
  [
    "tar-stream",
    `import tar from "tar-stream"; export default () => new Promise((resolve) => { const pack = tar.pack(); const extract = tar.extract(); const names = []; extract.on("entry", (h, s, next) => { names.push(h.name); s.on("end", next); s.resume(); }); extract.on("finish", () => resolve(names)); pack.pipe(extract); pack.entry({ name: "a" }, "x"); pack.finalize(); });`,
  ],
  [
    "archiver",
    `import * as archiver from "archiver"; export default async () => { const make = archiver.default ?? ((kind) => new archiver.ZipArchive()); const a = make("zip"); const chunks = []; a.on("data", (c) => chunks.push(c)); a.append("hello", { name: "a.txt", date: new Date(0) }); await a.finalize(); return Buffer.concat(chunks).subarray(0, 2).toString(); };`,
  ],
  [
    "lz-string",
    `import LZString from "lz-string"; export default () => LZString.decompressFromBase64(LZString.compressToBase64("hello hello"));`,
  ],
  [
    "pdf-lib",
    `import { PDFDocument, StandardFonts } from "pdf-lib"; export default async () => { const doc = await PDFDocument.create(); const page = doc.addPage([100, 100]); page.drawText("hi", { font: await doc.embedFont(StandardFonts.Helvetica), size: 10 }); return (await PDFDocument.load(await doc.save())).getPageCount(); };`,
  ],
  [
    "pdfkit",
    `import PDFDocument from "pdfkit"; export default () => new Promise((resolve) => { const doc = new PDFDocument({ compress: false }); let text = ""; doc.on("data", (c) => { text += c.toString("latin1"); }); doc.on("end", () => resolve([text.length > 1000, text.includes("Times-Bold"), doc.widthOfString("Hi")])); doc.font("Times-Bold").text("Hi there"); doc.rect(1, 1, 5, 5).fill("red"); doc.end(); });`,
  ],
  [
    "xlsx",
    `import * as XLSX from "xlsx"; export default () => { const wb = XLSX.utils.book_new(); XLSX.utils.book_append_sheet(wb, XLSX.utils.aoa_to_sheet([["a", 1]]), "S"); const out = XLSX.write(wb, { type: "array", bookType: "xlsx" }); return XLSX.utils.sheet_to_json(XLSX.read(out).Sheets.S, { header: 1 }); };`,
  ],
  [
    "exceljs",
    `import ExcelJS from "exceljs"; export default async () => { const wb = new ExcelJS.Workbook(); wb.addWorksheet("S").addRow(["a", 1]); const copy = new ExcelJS.Workbook(); await copy.xlsx.load(await wb.xlsx.writeBuffer()); return copy.getWorksheet("S").getRow(1).values.slice(1); };`,
  ],
  [
    "docx",
    `import { Document, Packer, Paragraph } from "docx"; export default async () => (await Packer.toBase64String(new Document({ sections: [{ children: [new Paragraph("hi")] }] }))).slice(0, 4);`,
  ],
  [
    "mammoth",
    `import mammoth from "mammoth"; import { Document, Packer, Paragraph } from "docx"; export default async () => { const data = await Packer.toArrayBuffer(new Document({ sections: [{ children: [new Paragraph("hi")] }] })); return (await mammoth.extractRawText({ arrayBuffer: data, buffer: Buffer.from(data) })).value.trim(); };`,
  ],
  [
    "pngjs",
    `import { PNG } from "pngjs"; export default () => { const png = new PNG({ width: 2, height: 1 }); png.data.fill(255); return [...PNG.sync.read(PNG.sync.write(png)).data]; };`,
  ],
  [
    "jpeg-js",
    `import jpeg from "jpeg-js"; export default () => { const data = Buffer.alloc(64 * 4, 128); const { width, height } = jpeg.decode(jpeg.encode({ data, width: 8, height: 8 }, 90).data); return [width, height]; };`,
  ],
  ["qrcode", `import QRCode from "qrcode"; export default () => QRCode.create("hello").modules.size;`],
  [
    "qrcode-generator",
    `import qrcode from "qrcode-generator"; export default () => { const q = qrcode(4, "L"); q.addData("hi"); q.make(); return q.getModuleCount(); };`,
  ],
  ["color", `import Color from "color"; export default () => Color("#ff0000").lighten(0.2).hex();`],
  ["chroma-js", `import chroma from "chroma-js"; export default () => chroma.mix("red", "blue").hex();`],
  [
    "tinycolor2",
    `import tinycolor from "tinycolor2"; export default () => tinycolor("red").complement().toHexString();`,
  ],
  [
    "d3-array",
    `import { bin, extent, rollup, sum } from "d3-array"; export default () => [extent([3, 1, 2]), bin()([1, 2, 3]).length, [...rollup([1, 1, 2], (v) => v.length, (x) => x)], sum([1, 2])];`,
  ],
  [
    "d3-scale",
    `import { scaleLinear, scaleTime } from "d3-scale"; export default () => [scaleLinear([0, 10], [0, 1])(5), scaleLinear([0, 1]).ticks(3)];`,
  ],
  [
    "d3-shape",
    `import { line, arc } from "d3-shape"; export default () => [line()([[0, 0], [1, 1]]), arc()({ innerRadius: 0, outerRadius: 1, startAngle: 0, endAngle: 1 })];`,
  ],
  [
    "d3-format",
    `import { format } from "d3-format"; export default () => [format(",.2f")(1234.5), format(".1%")(0.123)];`,
  ],
  [
    "d3-geo",
    `import { geoMercator, geoDistance } from "d3-geo"; export default () => [geoMercator()([10, 20]), geoDistance([0, 0], [1, 1])];`,
  ],
  [
    "@turf/turf",
    `import { distance, point, area, polygon } from "@turf/turf"; export default () => [distance(point([0, 0]), point([1, 1])), area(polygon([[[0, 0], [0, 1], [1, 1], [0, 0]]]))];`,
  ],
  [
    "geolib",
    `import { getDistance } from "geolib"; export default () => getDistance({ latitude: 0, longitude: 0 }, { latitude: 1, longitude: 1 });`,
  ],
  ["ngeohash", `import geohash from "ngeohash"; export default () => geohash.encode(37.8324, 112.5584);`],
  [
    "fuse.js",
    `import Fuse from "fuse.js"; export default () => new Fuse(["apple", "banana"], {}).search("aple")[0].item;`,
  ],
  [
    "minisearch",
    `import MiniSearch from "minisearch"; export default () => { const m = new MiniSearch({ fields: ["t"] }); m.add({ id: 1, t: "hello world" }); return m.search("wrld", { fuzzy: 1 })[0].id; };`,
  ],
  [
    "lunr",
    `import lunr from "lunr"; export default () => lunr(function () { this.ref("id"); this.field("t"); this.add({ id: "1", t: "hello" }); }).search("hello")[0].ref;`,
  ],
  [
    "flexsearch",
    `import { Index } from "flexsearch"; export default () => { const i = new Index(); i.add(1, "hello world"); return i.search("hello"); };`,
  ],
  ["fast-levenshtein", `import lev from "fast-levenshtein"; export default () => lev.get("back", "book");`],
  [
    "string-similarity",
    `import s from "string-similarity"; export default () => s.compareTwoStrings("healed", "sealed");`,
  ],
  [
    "compromise",
    `import nlp from "compromise"; export default () => nlp("she sells seashells").verbs().toPastTense().text();`,
  ],
  [
    "franc",
    `import { franc } from "franc"; export default () => franc("Alle Menschen sind frei und gleich an Würde und Rechten geboren.");`,
  ],
  [
    "stopword",
    `import { removeStopwords } from "stopword"; export default () => removeStopwords(["this", "is", "cat"]);`,
  ],
  ["slugify", `import slugify from "slugify"; export default () => slugify("Héllo Wörld", { lower: true });`],
  [
    "change-case",
    `import { snakeCase, pascalCase } from "change-case"; export default () => [snakeCase("fooBar"), pascalCase("foo bar")];`,
  ],
  ["pluralize", `import pluralize from "pluralize"; export default () => [pluralize("child"), pluralize("tests", 1)];`],
  [
    "diff",
    `import { diffWords, createPatch } from "diff"; export default () => [diffWords("a b", "a c").length, createPatch("f", "a\\n", "b\\n")];`,
  ],
  ["fast-diff", `import diff from "fast-diff"; export default () => diff("good", "gold");`],
  [
    "deep-equal",
    `import equal from "deep-equal"; export default () => [equal({ a: [1] }, { a: [1] }), equal(new Map([[1, 2]]), new Map([[1, 3]]))];`,
  ],
  ["fast-deep-equal", `import equal from "fast-deep-equal"; export default () => equal({ a: [1] }, { a: [1] });`],
  ["deepmerge", `import merge from "deepmerge"; export default () => merge({ a: [1] }, { a: [2], b: 1 });`],
  [
    "deep-diff",
    `import diff from "deep-diff"; export default () => JSON.parse(JSON.stringify(diff({ a: 1 }, { a: 2 })));`,
  ],
  [
    "fast-json-patch",
    `import patch from "fast-json-patch"; const { applyPatch, compare } = patch; export default () => [applyPatch({ a: 1 }, [{ op: "add", path: "/b", value: 2 }]).newDocument, compare({ a: 1 }, { a: 2 })];`,
  ],
  [
    "jsonpath-plus",
    `import { JSONPath } from "jsonpath-plus"; export default () => JSONPath({ path: "$.a[*].b", json: { a: [{ b: 1 }, { b: 2 }] } });`,
  ],
  ["jmespath", `import jmespath from "jmespath"; export default () => jmespath.search({ a: [{ b: 1 }] }, "a[*].b");`],
  [
    "jsonata",
    `import jsonata from "jsonata"; export default () => jsonata("$sum(a.b)").evaluate({ a: [{ b: 1 }, { b: 2 }] });`,
  ],
  [
    "dot-prop",
    `import { getProperty, setProperty } from "dot-prop"; export default () => [getProperty({ a: { b: 1 } }, "a.b"), setProperty({}, "x.y", 1)];`,
  ],
  [
    "flat",
    `import { flatten, unflatten } from "flat"; export default () => [flatten({ a: { b: 1 } }), unflatten({ "a.b": 1 })];`,
  ],
  ["clone-deep", `import cloneDeep from "clone-deep"; export default () => cloneDeep({ a: [1, { b: 2 }] });`],
  [
    "semver",
    `import semver from "semver"; export default () => [semver.satisfies("1.2.3", "^1.0.0"), semver.inc("1.2.3", "minor")];`,
  ],
  [
    "minimatch",
    `import { minimatch } from "minimatch"; export default () => [minimatch("a/b.js", "**/*.js"), minimatch("x", "{a,b}")];`,
  ],
  ["picomatch", `import picomatch from "picomatch"; export default () => picomatch("*.{js,ts}")("a.ts");`],
  ["micromatch", `import micromatch from "micromatch"; export default () => micromatch(["a.js", "b.ts"], "*.js");`],
  ["ignore", `import ignore from "ignore"; export default () => ignore().add("*.log").filter(["a.log", "b.js"]);`],
  ["glob", `import { glob } from "glob"; export default async () => (await glob("/no-such-folder/**/*.js")).length;`],
  [
    "fs-extra",
    `import fs from "fs-extra"; export default async () => { await fs.outputJson("/tmp/glovebox-npm/a.json", { a: 1 }); const read = await fs.readJson("/tmp/glovebox-npm/a.json"); await fs.remove("/tmp/glovebox-npm"); return [read, await fs.pathExists("/tmp/glovebox-npm")]; };`,
  ],
  [
    "graceful-fs",
    `import fs from "graceful-fs"; export default () => { fs.writeFileSync("/tmp/glovebox-g", "x"); const t = fs.readFileSync("/tmp/glovebox-g", "utf8"); fs.unlinkSync("/tmp/glovebox-g"); return t; };`,
  ],
  [
    "mkdirp",
    `import { mkdirp } from "mkdirp"; import fs from "node:fs"; export default async () => { await mkdirp("/tmp/glovebox-m/b"); const made = fs.existsSync("/tmp/glovebox-m/b"); fs.rmSync("/tmp/glovebox-m", { recursive: true }); return made; };`,
  ],
  ["chalk", `import { Chalk } from "chalk"; export default () => new Chalk({ level: 1 }).red.bold("x");`],
  ["kleur", `import kleur from "kleur"; export default () => { kleur.enabled = true; return kleur.red().bold("x"); };`],
  ["picocolors", `import pc from "picocolors"; export default () => pc.createColors(true).red("x");`],
  [
    "ansi-styles",
    `import styles from "ansi-styles"; export default () => styles.green.open + "x" + styles.green.close;`,
  ],
  ["strip-ansi", `import strip from "strip-ansi"; export default () => strip("\\u001b[31mx\\u001b[39m");`],
  ["string-width", `import width from "string-width"; export default () => [width("abc"), width("古"), width("👍")];`],
  ["wrap-ansi", `import wrap from "wrap-ansi"; export default () => wrap("the quick brown fox", 9);`],
  [
    "cli-table3",
    `import Table from "cli-table3"; export default () => { const t = new Table({ head: ["a"], style: { head: [], border: [] } }); t.push(["b"]); return t.toString(); };`,
  ],
  [
    "commander",
    `import { Command } from "commander"; export default () => new Command().option("-n, --name <x>").exitOverride().parse(["node", "x", "-n", "a"]).opts();`,
  ],
  ["yargs-parser", `import parse from "yargs-parser"; export default () => parse("--a=1 --no-b -c x");`],
  ["minimist", `import minimist from "minimist"; export default () => minimist(["--a", "1", "-b", "x"]);`],
  [
    "debug",
    `import debug from "debug"; export default () => { const d = debug("x"); d("hi"); return [d.namespace, d.enabled]; };`,
  ],
  [
    "winston",
    `import winston from "winston"; import { Writable } from "node:stream"; export default () => { const lines = []; const log = winston.createLogger({ transports: [new winston.transports.Stream({ stream: new Writable({ write(c, e, d) { lines.push(String(c)); d(); } }) })] }); log.info("hello"); return new Promise((r) => setTimeout(() => r(lines), 10)); };`,
  ],
  [
    "pino",
    `import pino from "pino"; export default () => { const lines = []; pino({ base: null, timestamp: false }, { write: (s) => lines.push(s) }).info({ a: 1 }, "hi"); return lines; };`,
  ],
  [
    "loglevel",
    `import log from "loglevel"; export default () => { log.setLevel("warn", false); return log.getLevel(); };`,
  ],
  [
    "eventemitter3",
    `import { EventEmitter } from "eventemitter3"; export default () => { const e = new EventEmitter(); const s = []; e.on("a", (x) => s.push(x)); e.emit("a", 1); return s; };`,
  ],
  [
    "events",
    `import EventEmitter from "events/events.js"; export default () => { const e = new EventEmitter(); const s = []; e.once("a", (x) => s.push(x)); e.emit("a", 1); e.emit("a", 2); return s; };`,
  ],
  [
    "mitt",
    `import mitt from "mitt"; export default () => { const m = mitt(); const s = []; m.on("*", (t, e) => s.push([t, e])); m.emit("a", 1); return s; };`,
  ],
  [
    "buffer",
    `import buffer from "buffer/index.js"; const B = buffer.Buffer; export default () => B.from("hi").toString("base64");`,
  ],
  [
    "readable-stream",
    `import { Readable, Transform } from "readable-stream"; export default () => Readable.from(["a", "b"]).pipe(new Transform({ objectMode: true, transform(c, e, d) { d(null, String(c).toUpperCase()); } })).toArray().then((x) => x.map(String));`,
  ],
  [
    "through2",
    `import through2 from "through2"; export default () => new Promise((r) => { const out = []; const s = through2.obj(function (c, e, d) { this.push(c * 2); d(); }); s.on("data", (x) => out.push(x)); s.on("end", () => r(out)); s.write(1); s.end(2); });`,
  ],
  [
    "concat-stream",
    `import concat from "concat-stream"; import { Readable } from "node:stream"; export default () => new Promise((r) => Readable.from([Buffer.from("a"), Buffer.from("b")]).pipe(concat((b) => r(String(b)))));`,
  ],
  [
    "bl",
    `import { BufferList } from "bl"; export default () => { const b = new BufferList(); b.append("ab"); b.append(Buffer.from("c")); return [b.toString(), b.slice(1, 3).toString()]; };`,
  ],
  [
    "split2",
    `import split from "split2"; import { Readable } from "node:stream"; export default () => Readable.from(["a\\nb", "\\nc"]).pipe(split()).toArray();`,
  ],
  [
    "get-stream",
    `import getStream from "get-stream"; import { Readable } from "node:stream"; export default () => getStream(Readable.from(["a", "b"]));`,
  ],
  [
    "iconv-lite",
    `import iconv from "iconv-lite"; export default () => [iconv.decode(Buffer.from([0xe4]), "latin1"), [...iconv.encode("€", "win1252")], iconv.decode(Buffer.from([0x82, 0xa0]), "Shift_JIS")];`,
  ],
  ["safe-buffer", `import { Buffer as B } from "safe-buffer"; export default () => B.from("x").toString("hex");`],
  [
    "base64-js",
    `import base64 from "base64-js"; export default () => base64.fromByteArray(new Uint8Array([1, 2, 3]));`,
  ],
  [
    "lru-cache",
    `import { LRUCache } from "lru-cache"; export default () => { const c = new LRUCache({ max: 1 }); c.set("a", 1); c.set("b", 2); return [c.get("a") ?? null, c.get("b")]; };`,
  ],
  [
    "quick-lru",
    `import QuickLRU from "quick-lru"; export default () => { const c = new QuickLRU({ maxSize: 2 }); c.set("a", 1); return c.get("a"); };`,
  ],
  [
    "node-cache",
    `import NodeCache from "node-cache"; export default () => { const c = new NodeCache(); c.set("a", { b: 1 }); const v = c.get("a"); c.close(); return v; };`,
  ],
  [
    "axios",
    `import axios from "axios"; export default () => [axios.getUri({ url: "http://a/b", params: { c: [1, 2] } }), axios.isAxiosError(new Error("x")), axios.create({ baseURL: "x" }).defaults.baseURL];`,
  ],
  [
    "ky",
    `import ky, { HTTPError } from "ky"; export default () => [typeof ky.create({ prefixUrl: "http://a" }).get, HTTPError.name];`,
  ],
  [
    "openai",
    `import OpenAI from "openai"; export default async () => { const c = new OpenAI({ apiKey: "k", fetch: async (u, i) => new Response(JSON.stringify({ data: [{ id: "m", path: new URL(u).pathname }] }), { headers: { "content-type": "application/json" } }) }); return (await c.models.list()).data; };`,
  ],
  [
    "@anthropic-ai/sdk",
    `import Anthropic from "@anthropic-ai/sdk"; export default async () => { const c = new Anthropic({ apiKey: "k", fetch: async () => new Response(JSON.stringify({ id: "m", content: [{ type: "text", text: "hi" }] }), { headers: { "content-type": "application/json" } }) }); return (await c.messages.create({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "x" }] })).content; };`,
  ],
  [
    "js-tiktoken",
    `import { Tiktoken } from "js-tiktoken/lite"; import ranks from "js-tiktoken/ranks/cl100k_base"; export default () => new Tiktoken(ranks).encode("hello world");`,
  ],
  [
    "gpt-tokenizer",
    `import { encode, decode } from "gpt-tokenizer/encoding/cl100k_base"; export default () => decode(encode("hello world"));`,
  ],
  [
    "xstate",
    `import { createMachine, createActor } from "xstate"; export default () => { const a = createActor(createMachine({ initial: "a", states: { a: { on: { GO: "b" } }, b: {} } })).start(); a.send({ type: "GO" }); return a.getSnapshot().value; };`,
  ],
  [
    "redux",
    `import { createStore } from "redux"; export default () => { const s = createStore((x = 0, a) => (a.type === "i" ? x + 1 : x)); s.dispatch({ type: "i" }); return s.getState(); };`,
  ],
  [
    "zustand",
    `import { createStore } from "zustand/vanilla"; export default () => { const s = createStore((set) => ({ n: 0, inc: () => set((x) => ({ n: x.n + 1 })) })); s.getState().inc(); return s.getState().n; };`,
  ],
  [
    "mobx",
    `import { observable, autorun, runInAction } from "mobx"; export default () => { const s = observable({ n: 0 }); const seen = []; autorun(() => seen.push(s.n)); runInAction(() => { s.n = 1; }); return seen; };`,
  ],
  [
    "effect",
    `import { Effect, pipe } from "effect"; export default () => Effect.runPromise(pipe(Effect.succeed(1), Effect.map((x) => x + 1)));`,
  ],
  [
    "fp-ts",
    `import * as O from "fp-ts/lib/Option.js"; import { pipe } from "fp-ts/lib/function.js"; export default () => pipe(O.some(1), O.map((x) => x + 1), O.getOrElse(() => 0));`,
  ],
  [
    "react",
    `import { createElement } from "react"; import { renderToStaticMarkup } from "react-dom/server"; export default () => renderToStaticMarkup(createElement("p", { className: "a" }, "hi"));`,
  ],
  [
    "preact",
    `import { h } from "preact"; import render from "preact-render-to-string"; export default () => render(h("p", { class: "a" }, "hi"));`,
  ],
  [
    "vue",
    `import { createSSRApp, h } from "vue"; import { renderToString } from "vue/server-renderer"; export default () => renderToString(createSSRApp({ render: () => h("p", "hi") }));`,
  ],
  [
    "hono",
    `import { Hono } from "hono"; export default async () => { const app = new Hono(); app.get("/a/:id", (c) => c.json({ id: c.req.param("id") })); return (await app.request("/a/5")).json(); };`,
  ],
  [
    "i18next",
    `import i18next from "i18next"; export default async () => { await i18next.init({ lng: "en", showSupportNotice: false, resources: { en: { translation: { a: "hi {{n}}" } } } }); return i18next.t("a", { n: 1 }); };`,
  ],
  [
    "intl-messageformat",
    `import { IntlMessageFormat } from "intl-messageformat"; export default () => new IntlMessageFormat("{n, plural, one {# item} other {# items}}", "en").format({ n: 2 });`,
  ],
  [
    "libphonenumber-js",
    `import parsePhone from "libphonenumber-js"; export default () => parsePhone("+12133734253").formatNational();`,
  ],
  ["currency.js", `import currency from "currency.js"; export default () => currency("1.23").add(0.1).format();`],
  [
    "dinero.js",
    `import { dinero, add, toDecimal } from "dinero.js"; import { USD } from "dinero.js/currencies"; export default () => toDecimal(add(dinero({ amount: 100, currency: USD }), dinero({ amount: 5, currency: USD })));`,
  ],
  ["numeral", `import numeral from "numeral"; export default () => numeral(1234.5).format("0,0.00");`],
  ["accounting", `import accounting from "accounting"; export default () => accounting.formatMoney(1234.5);`],
  ["ical.js", `import ICAL from "ical.js"; export default () => ICAL.parse("BEGIN:VCALENDAR\\r\\nEND:VCALENDAR")[0];`],
  [
    "rrule",
    `import * as rrule from "rrule"; export default () => { const { RRule } = rrule.default ?? rrule; return new RRule({ freq: RRule.DAILY, count: 2, dtstart: new Date(0) }).all().map((d) => d.toISOString()); };`,
  ],
  [
    "nodemailer",
    `import MailComposer from "nodemailer/lib/mail-composer/index.js"; export default () => new Promise((resolve, reject) => new MailComposer({ from: "a@b.c", text: "hi" }).compile().build((error, data) => (error ? reject(error) : resolve(String(data).includes("hi")))));`,
  ],
  [
    "mailparser",
    `import { simpleParser } from "mailparser"; export default async () => { const m = await simpleParser("Subject: hi\\r\\nFrom: a@b.c\\r\\n\\r\\nbody"); return [m.subject, m.text]; };`,
  ],
  [
    "sql-formatter",
    `import { format } from "sql-formatter"; export default () => format("select a from b where c=1");`,
  ],
  [
    "node-sql-parser",
    `import parser from "node-sql-parser/build/mysql.js"; export default () => new parser.Parser().astify("SELECT a FROM b").type;`,
  ],
  ["knex", `import knex from "knex"; export default () => knex({ client: "pg" })("t").where({ a: 1 }).toString();`],
  [
    "kysely",
    `import { Kysely, DummyDriver, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from "kysely"; export default () => new Kysely({ dialect: { createAdapter: () => new PostgresAdapter(), createDriver: () => new DummyDriver(), createIntrospector: (db) => new PostgresIntrospector(db), createQueryCompiler: () => new PostgresQueryCompiler() } }).selectFrom("t").selectAll().compile().sql;`,
  ],
  ["alasql", `import alasql from "alasql"; export default () => typeof alasql.parse("SELECT 1");`],
  [
    "lokijs",
    `import loki from "lokijs"; export default () => { const db = new loki("x", { adapter: new loki.LokiMemoryAdapter() }); const c = db.addCollection("c"); c.insert({ a: 1 }); return c.find({ a: 1 }).length; };`,
  ],
  ["sift", `import sift from "sift"; export default () => [1, 2, 3].filter(sift({ $gt: 1 }));`],
  ["mingo", `import { Query } from "mingo"; export default () => new Query({ a: { $gt: 1 } }).test({ a: 2 });`],
  [
    "chess.js",
    `import { Chess } from "chess.js"; export default () => { const c = new Chess(); c.move("e4"); return c.fen(); };`,
  ],
  ["expr-eval", `import { Parser } from "expr-eval"; export default () => Parser.evaluate("2 * x + 1", { x: 3 });`],
  [
    "peggy",
    `import peggy from "peggy"; export default () => peggy.generate("start = 'a'", { output: "source" }).length > 100;`,
  ],
  [
    "nearley",
    `import nearley from "nearley"; export default () => { const g = { ParserRules: [{ name: "m", symbols: [{ literal: "a" }] }], ParserStart: "m" }; const p = new nearley.Parser(nearley.Grammar.fromCompiled(g)); p.feed("a"); return p.results; };`,
  ],
  [
    "chevrotain",
    `import { createToken, Lexer } from "chevrotain"; export default () => new Lexer([createToken({ name: "A", pattern: /a/ })]).tokenize("aa").tokens.length;`,
  ],
  [
    "moo",
    `import moo from "moo"; export default () => [...moo.compile({ n: /[0-9]+/, ws: { match: /\\s+/, lineBreaks: true } }).reset("1 2")].map((t) => t.type);`,
  ],
  [
    "highlight.js",
    `import hljs from "highlight.js/lib/core"; import js from "highlight.js/lib/languages/javascript"; hljs.registerLanguage("js", js); export default () => hljs.highlight("let a", { language: "js" }).value;`,
  ],
  [
    "prismjs",
    `import Prism from "prismjs"; export default () => Prism.highlight("let a", Prism.languages.javascript, "javascript");`,
  ],
  ["katex", `import katex from "katex"; export default () => katex.renderToString("x^2").length;`],
  ["semver-compare", `import cmp from "semver-compare"; export default () => cmp("1.2.3", "1.10.0");`],
  ["tslib", `import { __rest } from "tslib"; export default () => __rest({ a: 1, b: 2 }, ["a"]);`],
  [
    "core-js-pure",
    `import groupBy from "core-js-pure/actual/object/group-by.js"; export default () => JSON.parse(JSON.stringify(groupBy([1, 2], (x) => (x % 2 ? "o" : "e"))));`,
  ],
  [
    "reflect-metadata",
    `import "reflect-metadata"; export default () => { const o = {}; Reflect.defineMetadata("a", 1, o); return Reflect.getMetadata("a", o); };`,
  ],
  [
    "inversify",
    `import "reflect-metadata"; import { Container } from "inversify"; export default () => { const c = new Container(); c.bind("a").toConstantValue(1); return c.get("a"); };`,
  ],
  [
    "class-transformer",
    `import "reflect-metadata"; import { plainToInstance } from "class-transformer"; export default () => { class A {} return plainToInstance(A, { a: 1 }) instanceof A; };`,
  ],
  [
    "ajv",
    `import Ajv from "ajv"; export default () => typeof new Ajv().addSchema({ $id: "a", type: "object" }).getKeyword("type");`,
  ],
  // Packages that only read what a tool does not have while they load, that are large, or that read files of their own.
  [
    "got",
    `import got, { HTTPError } from "got"; export default async () => { const made = got.extend({ prefixUrl: "https://a.example/", headers: { a: "b" } }); return [made.defaults.options.headers.a, typeof made.get, HTTPError.name]; };`,
  ],
  [
    "natural",
    `import natural from "natural"; export default () => [natural.PorterStemmer.stem("running"), new natural.WordTokenizer().tokenize("a quick fox"), natural.JaroWinklerDistance("dixon", "dicksonx"), new natural.NounInflector().pluralize("cat")];`,
  ],
  [
    "typescript",
    `import ts from "typescript"; export default () => ts.transpileModule("const x: number = 1; export enum A { B }", { compilerOptions: { target: ts.ScriptTarget.ES2020 } }).outputText;`,
  ],
  [
    "sql.js",
    `import initSqlJs from "sql.js/dist/sql-asm.js"; export default async () => { const SQL = await initSqlJs(); const db = new SQL.Database(); db.run("create table t (a int, b text)"); db.run("insert into t values (1, 'x'), (2, 'y')"); return db.exec("select * from t order by a desc"); };`,
  ],
  [
    "tar",
    `import * as tar from "tar"; export default async () => { const names = []; const pack = new tar.Pack({ gzip: true, portable: true, mtime: new Date(0) }); const parser = new tar.Parser({ onReadEntry: (entry) => { names.push([entry.path, entry.size]); entry.resume(); } }); const header = new tar.Header({ path: "a.txt", size: 3, mode: 0o644, type: "File", mtime: new Date(0) }); header.encode(); parser.write(Buffer.concat([header.block, Buffer.from("abc".padEnd(512, "\0")), Buffer.alloc(1024)])); parser.end(); return [names, typeof pack.write]; };`,
  ],
  [
    "minizlib",
    `import { Gzip, Gunzip } from "minizlib"; export default () => { const text = "some text ".repeat(1000); const zip = new Gzip(); const chunks = []; zip.on("data", (c) => chunks.push(c)); zip.end(text); const unzip = new Gunzip(); let out = ""; unzip.on("data", (c) => { out += c; }); unzip.end(Buffer.concat(chunks)); return out === text; };`,
  ],
  [
    "undici",
    `import { Headers, Request, Agent, MockAgent, errors } from "undici"; export default () => [new Headers({ a: "b" }).get("a"), new Request("https://a.example/").method, typeof Agent, typeof MockAgent, new errors.ConnectTimeoutError("x").code];`,
  ],
  [
    "node-fetch",
    `import fetch, { Headers, Response } from "node-fetch"; export default async () => [typeof fetch, new Headers({ a: "b" }).get("a"), await new Response("hi").text()];`,
  ],
  [
    "ws",
    `import WebSocket, { WebSocketServer, Receiver, Sender } from "ws"; export default () => [WebSocket.OPEN, typeof WebSocketServer, typeof Receiver, Sender.frame(Buffer.from("hi"), { fin: true, opcode: 1, mask: false, readOnly: true, rsv1: false }).map((b) => [...b])];`,
  ],
  [
    "jsdom",
    `import { JSDOM } from "jsdom"; export default () => { const { window } = new JSDOM("<p class=a>hi <b>you</b></p>"); return [window.document.querySelector("b").textContent, window.document.body.innerHTML]; };`,
  ],
  [
    "superagent",
    `import superagent from "superagent"; export default () => { const request = superagent.get("https://a.example/").query({ a: 1 }).set("x", "y"); return [request.method, request.url, typeof superagent.agent]; };`,
  ],
  [
    "form-data",
    `import FormData from "form-data"; export default () => { const form = new FormData({}); form.setBoundary("b"); form.append("a", "1"); form.append("f", Buffer.from("x"), { filename: "f.txt" }); return [String(form.getBuffer()), form.getLengthSync()]; };`,
  ],
  [
    "cross-fetch",
    `import fetch, { Headers } from "cross-fetch"; export default () => [typeof fetch, new Headers({ a: "b" }).get("a")];`,
  ],
  [
    "dotenv",
    `import dotenv from "dotenv"; export default () => dotenv.parse(["A=1", "B='x y' # no", "C=3"].join(String.fromCharCode(10)));`,
  ],
  [
    "mysql2",
    `import mysql from "mysql2"; export default () => [mysql.format("select ?? from t where a = ? and b in (?)", ["c", "it's", [1, 2]]), mysql.escape("x'y"), typeof mysql.createPool];`,
  ],
  [
    "pg",
    `import pg from "pg"; export default () => [pg.escapeLiteral("it's"), pg.escapeIdentifier('a"b'), pg.types.getTypeParser(23)("42"), typeof pg.Pool];`,
  ],
  [
    "mongodb",
    `import { ObjectId, MongoClient, Long } from "mongodb"; export default () => [new ObjectId("507f1f77bcf86cd799439011").getTimestamp().toISOString(), Long.fromString("9007199254740993").toString(), typeof MongoClient];`,
  ],
  [
    "ioredis",
    `import Redis from "ioredis"; export default () => { const client = new Redis({ lazyConnect: true }); return [client.status, typeof client.get, typeof Redis.Cluster]; };`,
  ],
  [
    "stripe",
    `import Stripe from "stripe"; export default async () => { const stripe = new Stripe("sk_test_x"); const signed = { payload: JSON.stringify({ type: "x" }), secret: "whsec_x", timestamp: Math.floor(Date.now() / 1000) }; const header = await stripe.webhooks.generateTestHeaderStringAsync({ payload: "{}", secret: "whsec_x", timestamp: 1 }); const event = stripe.webhooks.constructEvent(signed.payload, stripe.webhooks.generateTestHeaderString(signed), signed.secret); return [typeof stripe.charges.create, header, event.type, typeof Stripe.createNodeHttpClient()]; };`,
  ],
  [
    "@slack/web-api",
    `import { WebClient, ErrorCode } from "@slack/web-api"; export default () => [typeof new WebClient("xoxb-x").chat.postMessage, ErrorCode.PlatformError];`,
  ],
  [
    "@octokit/rest",
    `import { Octokit } from "@octokit/rest"; export default () => { const octokit = new Octokit(); return octokit.request.endpoint("GET /repos/{owner}/{repo}", { owner: "a", repo: "b" }).url; };`,
  ],
  [
    "@aws-sdk/client-s3",
    `import { S3Client, GetObjectCommand } from "@aws-sdk/client-s3"; export default () => { const client = new S3Client({ region: "eu-west-1", credentials: { accessKeyId: "a", secretAccessKey: "b" } }); return [typeof client.send, new GetObjectCommand({ Bucket: "a", Key: "b" }).input]; };`,
  ],
  [
    "@google/generative-ai",
    `import { GoogleGenerativeAI, SchemaType } from "@google/generative-ai"; export default () => [new GoogleGenerativeAI("k").getGenerativeModel({ model: "m" }).model, SchemaType.OBJECT];`,
  ],
  [
    "@supabase/supabase-js",
    `import { createClient } from "@supabase/supabase-js"; export default () => { const client = createClient("https://a.example", "key", { auth: { persistSession: false, autoRefreshToken: false } }); return String(client.from("t").select("a").eq("b", 1).url); };`,
  ],
  [
    "puppeteer-core",
    `import puppeteer, { KnownDevices, TimeoutError } from "puppeteer-core"; export default () => [typeof puppeteer.connect, KnownDevices["iPhone X"].viewport.width, TimeoutError.name];`,
  ],
  [
    "svgo",
    `import { optimize } from "svgo"; export default () => optimize('<svg xmlns="http://www.w3.org/2000/svg"><!-- x --><g><rect width="10" height="5" fill="#ff0000"/></g></svg>').data;`,
  ],
  [
    "less",
    `import less from "less"; export default async () => (await less.render("@a: 4px; .b { width: (@a * 2); .c { color: fade(#000, 50%) } }")).css;`,
  ],
  [
    "pug",
    `import pug from "pug"; export default () => pug.render("p#a(class=kind)= name", { name: "you", kind: "k" });`,
  ],
  [
    "ejs",
    `import ejs from "ejs"; export default () => ejs.render("<% for (const x of xs) { %><%= x %>,<% } %>", { xs: [1, "<"] });`,
  ],
  ["juice", `import juice from "juice"; export default () => juice("<style>p { color: red }</style><p>hi</p>");`],
  [
    "figlet",
    `import figlet from "figlet"; export default () => [figlet.textSync("Hi"), figlet.textSync("Ab", { font: "Slant" })];`,
  ],
  ["cowsay", `import cowsay from "cowsay"; export default () => cowsay.say({ text: "hi" });`],
  [
    "jimp",
    `import { Jimp } from "jimp"; export default async () => { const image = new Jimp({ width: 4, height: 2, color: 0xff0000ff }); const bytes = await image.getBuffer("image/png"); const read = await Jimp.read(bytes); return [read.width, read.height, read.getPixelColor(1, 1)]; };`,
  ],
  [
    "opentype.js",
    `import opentype from "opentype.js"; export default () => { const path = new opentype.Path(); path.moveTo(0, 0); path.lineTo(10, 5); return [path.toPathData(2), new opentype.Glyph({ name: "a", advanceWidth: 5, path }).getBoundingBox().x2]; };`,
  ],
  [
    "node-emoji",
    `import * as emoji from "node-emoji"; export default () => [emoji.emojify("I :heart: x"), emoji.which("🍕")];`,
  ],
  [
    "sentiment",
    `import Sentiment from "sentiment"; export default () => { const { score, positive } = new Sentiment().analyze("a great and happy day"); return [score, positive]; };`,
  ],
  [
    "express",
    `import express from "express"; export default () => { const app = express(); const router = express.Router(); router.get("/a", () => {}); app.use("/x", router); app.set("title", "t"); return [app.get("title"), typeof app.listen, router.stack.length]; };`,
  ],
  [
    "koa",
    `import Koa from "koa"; export default () => { const app = new Koa(); app.use(async (ctx, next) => next()); return [app.middleware.length, typeof app.callback()]; };`,
  ],
  [
    "js-beautify",
    `import beautify from "js-beautify"; export default () => [beautify.js("if(a){b()}"), beautify.html("<div><p>x</p></div>")];`,
  ],
  [
    "@apidevtools/json-schema-ref-parser",
    `import $RefParser from "@apidevtools/json-schema-ref-parser"; export default async () => $RefParser.dereference({ $defs: { a: { type: "string" } }, properties: { x: { $ref: "#/$defs/a" } } });`,
  ],
  [
    "socket.io-client",
    `import { io } from "socket.io-client"; export default () => { const socket = io("https://a.example", { autoConnect: false }); return [socket.connected, typeof socket.emit]; };`,
  ],
  [
    "fastest-levenshtein",
    `import { distance, closest } from "fastest-levenshtein"; export default () => [distance("kitten", "sitting"), closest("fast", ["slow", "faster"])];`,
  ],
  [
    "date-holidays",
    `import Holidays from "date-holidays"; export default () => new Holidays("DE", "BY").getHolidays(2024).slice(0, 3).map(({ name, date }) => [name, date]);`,
  ],
  [
    "fontkit",
    `import * as fontkit from "fontkit"; export default () => [typeof fontkit.create, typeof fontkit.registerFormat];`,
  ],
  [
    "twilio",
    `import twilio from "twilio"; export default () => { const client = twilio("AC" + "0".repeat(32), "token0000"); const response = new twilio.twiml.VoiceResponse(); response.say("hi"); return [typeof client.messages.create, response.toString(), twilio.validateRequest("12345", "x", "https://a.example", {})]; };`,
  ],
  [
    "@aws-sdk/client-dynamodb",
    `import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb"; export default async () => { const client = new DynamoDBClient({ region: "eu-central-1", credentials: { accessKeyId: "a", secretAccessKey: "b" }, requestHandler: { handle: async (request) => { throw new Error(request.method + " " + request.hostname + " " + request.headers["x-amz-target"] + " " + request.body); } }, maxAttempts: 1 }); return await client.send(new GetItemCommand({ TableName: "t", Key: { id: { S: "1" } } })).catch((error) => error.message); };`,
  ],
  [
    "@aws-sdk/lib-dynamodb",
    `import { DynamoDBClient } from "@aws-sdk/client-dynamodb"; import { DynamoDBDocumentClient, PutCommand } from "@aws-sdk/lib-dynamodb"; export default async () => { const client = DynamoDBDocumentClient.from(new DynamoDBClient({ region: "eu-central-1", credentials: { accessKeyId: "a", secretAccessKey: "b" }, requestHandler: { handle: async (request) => { throw new Error(request.body); } }, maxAttempts: 1 })); return await client.send(new PutCommand({ TableName: "t", Item: { id: 1, tags: ["a"], nested: { x: null } } })).catch((error) => error.message); };`,
  ],
  [
    "@aws-sdk/client-sqs",
    `import { SQSClient, SendMessageCommand } from "@aws-sdk/client-sqs"; export default async () => { const client = new SQSClient({ region: "eu-central-1", credentials: { accessKeyId: "a", secretAccessKey: "b" }, requestHandler: { handle: async (request) => { throw new Error(request.path + " " + request.body); } }, maxAttempts: 1 }); return await client.send(new SendMessageCommand({ QueueUrl: "https://sqs.eu-central-1.amazonaws.com/1/q", MessageBody: "hello" })).catch((error) => error.message); };`,
  ],
  [
    "@notionhq/client",
    `import { Client } from "@notionhq/client"; export default async () => { const seen = []; const notion = new Client({ auth: "secret", fetch: async (url, init) => { seen.push([String(url), init.method, init.body]); return new Response(JSON.stringify({ object: "page", id: "p" }), { status: 200, headers: { "content-type": "application/json" } }); } }); const page = await notion.pages.retrieve({ page_id: "abc" }); return [page, seen]; };`,
  ],
  [
    "google-auth-library",
    `import { OAuth2Client, GoogleAuth } from "google-auth-library"; export default () => { const client = new OAuth2Client({ clientId: "id", clientSecret: "s", redirectUri: "https://a.example/cb" }); return [client.generateAuthUrl({ scope: ["a", "b"], access_type: "offline" }), typeof new GoogleAuth().getClient]; };`,
  ],
  [
    "@googleapis/sheets",
    `import { sheets } from "@googleapis/sheets"; export default () => { const api = sheets({ version: "v4", auth: "key" }); return [typeof api.spreadsheets.values.get, typeof api.spreadsheets.batchUpdate]; };`,
  ],
  [
    "@google/genai",
    `import { GoogleGenAI, Type } from "@google/genai"; export default () => { const ai = new GoogleGenAI({ apiKey: "k" }); return [typeof ai.models.generateContent, Type.OBJECT]; };`,
  ],
  [
    "@sendgrid/mail",
    `import mail from "@sendgrid/mail"; export default () => { mail.setApiKey("SG.x"); return [typeof mail.send, typeof mail.sendMultiple]; };`,
  ],
  [
    "resend",
    `import { Resend } from "resend"; export default async () => { const resend = new Resend("re_x"); return [typeof resend.emails.send, typeof resend.domains.list]; };`,
  ],
  [
    "@hubspot/api-client",
    `import { Client } from "@hubspot/api-client"; export default () => { const client = new Client({ accessToken: "t" }); return [typeof client.crm.contacts.basicApi.getPage, typeof client.crm.deals.searchApi.doSearch]; };`,
  ],
  [
    "airtable",
    `import Airtable from "airtable"; export default () => { const base = new Airtable({ apiKey: "k" }).base("b"); return [typeof base("Table").select, base.getId()]; };`,
  ],
  [
    "@linear/sdk",
    `import { LinearClient } from "@linear/sdk"; export default () => { const client = new LinearClient({ apiKey: "k" }); return [typeof client.issues, typeof client.createIssue]; };`,
  ],
  [
    "octokit",
    `import { Octokit } from "octokit"; export default async () => { const seen = []; const octokit = new Octokit({ auth: "t", request: { fetch: async (url, init) => { seen.push(String(url), init.method); return new Response(JSON.stringify({ id: 1, name: "r" }), { status: 200, headers: { "content-type": "application/json" } }); } } }); const { data } = await octokit.rest.repos.get({ owner: "o", repo: "r" }); return [data, seen]; };`,
  ],
  [
    "@slack/webhook",
    `import { IncomingWebhook } from "@slack/webhook"; export default () => { const hook = new IncomingWebhook("https://hooks.slack.com/services/x", { username: "u" }); return [typeof hook.send]; };`,
  ],
  [
    "telegraf",
    `import { Telegraf, Markup } from "telegraf"; export default async () => { const bot = new Telegraf("1:token"); const seen = []; bot.command("start", (ctx) => { seen.push(ctx.message.text); }); bot.botInfo = { id: 1, is_bot: true, first_name: "b", username: "b" }; await bot.handleUpdate({ update_id: 1, message: { message_id: 1, date: 0, chat: { id: 1, type: "private" }, text: "/start", entities: [{ type: "bot_command", offset: 0, length: 6 }] } }); return [seen, Markup.keyboard(["a", "b"]).reply_markup]; };`,
  ],
  [
    "@mailchimp/mailchimp_marketing",
    `import mailchimp from "@mailchimp/mailchimp_marketing"; export default () => { mailchimp.setConfig({ apiKey: "k", server: "us1" }); return [typeof mailchimp.ping.get, typeof mailchimp.lists.addListMember]; };`,
  ],
  [
    "plaid",
    `import { Configuration, PlaidApi, PlaidEnvironments } from "plaid"; export default () => { const client = new PlaidApi(new Configuration({ basePath: PlaidEnvironments.sandbox, baseOptions: { headers: { "PLAID-CLIENT-ID": "x" } } })); return [typeof client.linkTokenCreate, PlaidEnvironments.sandbox]; };`,
  ],
  [
    "algoliasearch",
    `import { algoliasearch } from "algoliasearch"; export default () => { const client = algoliasearch("app", "key"); return [typeof client.search, typeof client.saveObjects]; };`,
  ],
  [
    "@pinecone-database/pinecone",
    `import { Pinecone } from "@pinecone-database/pinecone"; export default () => { const client = new Pinecone({ apiKey: "k" }); return [typeof client.index, typeof client.listIndexes]; };`,
  ],
  [
    "cohere-ai",
    `import { CohereClient } from "cohere-ai"; export default () => { const client = new CohereClient({ token: "t" }); return [typeof client.chat, typeof client.embed]; };`,
  ],
  [
    "@mistralai/mistralai",
    `import { Mistral } from "@mistralai/mistralai"; export default () => { const client = new Mistral({ apiKey: "k" }); return [typeof client.chat.complete]; };`,
  ],
  [
    "groq-sdk",
    `import Groq from "groq-sdk"; export default async () => { const groq = new Groq({ apiKey: "k", fetch: async (url, init) => new Response(JSON.stringify({ choices: [{ message: { role: "assistant", content: JSON.parse(init.body).messages[0].content } }] }), { headers: { "content-type": "application/json" } }) }); const answer = await groq.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hi" }] }); return answer.choices[0].message.content; };`,
  ],
  [
    "replicate",
    `import Replicate from "replicate"; export default () => { const client = new Replicate({ auth: "t" }); return [typeof client.run, typeof client.predictions.create]; };`,
  ],
  [
    "@huggingface/inference",
    `import { InferenceClient } from "@huggingface/inference"; export default () => { const client = new InferenceClient("hf_x"); return [typeof client.chatCompletion, typeof client.textToImage]; };`,
  ],
  [
    "@langchain/core",
    `import { PromptTemplate } from "@langchain/core/prompts"; import { RunnableLambda, RunnableSequence } from "@langchain/core/runnables"; import { HumanMessage } from "@langchain/core/messages"; export default async () => { const prompt = PromptTemplate.fromTemplate("Tell {name}"); const chain = RunnableSequence.from([prompt, RunnableLambda.from((value) => value.toString().toUpperCase())]); return [await chain.invoke({ name: "me" }), new HumanMessage("x").content]; };`,
  ],
  [
    "ai",
    `import { tool, jsonSchema, generateText } from "ai"; export default () => { const t = tool({ description: "d", inputSchema: jsonSchema({ type: "object", properties: { a: { type: "number" } } }), execute: async ({ a }) => a * 2 }); return [t.description, typeof generateText]; };`,
  ],
  [
    "@elastic/elasticsearch",
    `import { Client } from "@elastic/elasticsearch"; export default () => { const client = new Client({ node: "https://a.example:9200", auth: { apiKey: "k" } }); return [typeof client.search, typeof client.bulk]; };`,
  ],
  [
    "redis",
    `import { createClient } from "redis"; export default () => { const client = createClient({ url: "redis://a.example:6379" }); client.on("error", () => {}); return [client.isOpen, typeof client.get, typeof client.hSet]; };`,
  ],
  [
    "mongoose",
    `import mongoose from "mongoose"; export default async () => { const schema = new mongoose.Schema({ name: { type: String, required: true }, age: { type: Number, min: 1 } }); const Model = mongoose.model("Person", schema); const error = new Model({ age: 0 }).validateSync(); return [Object.keys(error.errors).sort(), new Model({ name: "a", age: 3 }).validateSync() === undefined]; };`,
  ],
  [
    "drizzle-orm",
    `import { pgTable, serial, text } from "drizzle-orm/pg-core"; import { QueryBuilder } from "drizzle-orm/pg-core"; import { eq } from "drizzle-orm"; export default () => { const users = pgTable("users", { id: serial("id").primaryKey(), name: text("name") }); return new QueryBuilder().select().from(users).where(eq(users.name, "a")).toSQL(); };`,
  ],
  [
    "graphql-request",
    'import { GraphQLClient, gql } from "graphql-request"; export default async () => { const client = new GraphQLClient("https://a.example/graphql", { fetch: async (url, init) => new Response(JSON.stringify({ data: { echo: JSON.parse(init.body).variables } }), { headers: { "content-type": "application/json" } }) }); return await client.request(gql`query q($a: Int) { echo(a: $a) }`, { a: 1 }); };',
  ],
  [
    "@graphql-tools/schema",
    `import { makeExecutableSchema } from "@graphql-tools/schema"; import { graphql } from "graphql"; export default async () => { const schema = makeExecutableSchema({ typeDefs: "type Query { hi(name: String): String }", resolvers: { Query: { hi: (_, { name }) => "hi " + name } } }); return JSON.parse(JSON.stringify(await graphql({ schema, source: '{ hi(name: "a") }' }))); };`,
  ],
  [
    "graphql-tag",
    'import gql from "graphql-tag"; export default () => gql`query a { b { c } }`.definitions[0].selectionSet.selections[0].name.value;',
  ],
  [
    "@trpc/client",
    `import { createTRPCClient, httpBatchLink } from "@trpc/client"; export default async () => { const seen = []; const client = createTRPCClient({ links: [httpBatchLink({ url: "https://a.example/trpc", fetch: async (url) => { seen.push(String(url)); return new Response(JSON.stringify([{ result: { data: 7 } }]), { headers: { "content-type": "application/json" } }); } })] }); return [await client.add.query({ a: 1 }), seen]; };`,
  ],
  [
    "@google-cloud/storage",
    `import { Storage } from "@google-cloud/storage"; export default () => { const storage = new Storage({ projectId: "p" }); const file = storage.bucket("b").file("f.txt"); return [file.name, file.bucket.name, typeof file.save]; };`,
  ],
  [
    "@azure/storage-blob",
    `import { BlobServiceClient, StorageSharedKeyCredential, generateBlobSASQueryParameters, BlobSASPermissions } from "@azure/storage-blob"; export default () => { const credential = new StorageSharedKeyCredential("account", "a2V5"); const client = new BlobServiceClient("https://account.blob.core.windows.net", credential); const sas = generateBlobSASQueryParameters({ containerName: "c", blobName: "b", expiresOn: new Date(1e12), permissions: BlobSASPermissions.parse("r"), version: "2020-08-04" }, credential); return [client.getContainerClient("c").url, sas.toString()]; };`,
  ],
  [
    "contentful",
    `import { createClient } from "contentful"; export default () => { const client = createClient({ space: "s", accessToken: "t" }); return [typeof client.getEntries, typeof client.getAsset]; };`,
  ],
  [
    "@octokit/webhooks",
    `import { Webhooks } from "@octokit/webhooks"; export default async () => { const hooks = new Webhooks({ secret: "s" }); const signature = await hooks.sign("{}"); return [signature, await hooks.verify("{}", signature), await hooks.verify("{ }", signature)]; };`,
  ],
  [
    "svix",
    `import { Webhook } from "svix"; export default () => { const hook = new Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"); const date = new Date(); const signature = hook.sign("id", date, "{}"); return [signature.startsWith("v1,"), hook.verify("{}", { "svix-id": "id", "svix-timestamp": String(Math.floor(date.getTime() / 1000)), "svix-signature": signature })]; };`,
  ],
  [
    "zod-to-json-schema",
    `import { zodToJsonSchema } from "zod-to-json-schema"; import { z } from "zod/v3"; export default () => zodToJsonSchema(z.object({ a: z.string().email(), b: z.number().optional() }));`,
  ],
  [
    "@sinclair/typebox",
    `import { Type } from "@sinclair/typebox"; import { Value } from "@sinclair/typebox/value"; import { TypeCompiler } from "@sinclair/typebox/compiler"; export default () => { const T = Type.Object({ a: Type.Number(), b: Type.Optional(Type.String()) }); return [T, Value.Check(T, { a: 1 }), TypeCompiler.Compile(T).Check({ a: "x" }), [...Value.Errors(T, { a: "x" })].map(({ message }) => message)]; };`,
  ],
  [
    "io-ts",
    `import * as t from "io-ts"; import { PathReporter } from "io-ts/lib/PathReporter.js"; export default () => { const T = t.type({ a: t.number }); return [T.decode({ a: 1 })._tag, PathReporter.report(T.decode({ a: "x" }))]; };`,
  ],
  [
    "arktype",
    `import { type } from "arktype"; export default () => { const T = type({ a: "number>0", "b?": "string.email" }); return [T({ a: 1 }), String(T({ a: -1 }).summary), T.toJsonSchema()]; };`,
  ],
  [
    "class-validator",
    `import { validateSync, IsEmail, registerDecorator } from "class-validator"; export default () => { class User { constructor(email) { this.email = email; } } IsEmail()(User.prototype, "email"); return [validateSync(new User("x")).map(({ property, constraints }) => [property, constraints]), validateSync(new User("a@b.example")).length]; };`,
  ],
  [
    "ajv-formats",
    `import Ajv from "ajv"; import addFormats from "ajv-formats"; export default () => { const ajv = new Ajv(); addFormats(ajv); const check = ajv.compile({ type: "string", format: "date-time" }); return [check("2020-01-01T00:00:00Z"), check("x"), check.errors]; };`,
  ],
  [
    "ts-pattern",
    `import { match, P } from "ts-pattern"; export default () => [1, "a", { k: [1, 2] }].map((value) => match(value).with(P.number, (n) => n + 1).with({ k: P.array(P.select()) }, (list) => list).otherwise((x) => x));`,
  ],
  [
    "axios-retry",
    `import axios from "axios"; import axiosRetry from "axios-retry"; export default async () => { let count = 0; const client = axios.create({ adapter: async (config) => { count += 1; if (count < 3) throw Object.assign(new Error("x"), { config, isAxiosError: true, response: { status: 500, config }, code: "ERR" }); return { data: count, status: 200, statusText: "OK", headers: {}, config }; } }); axiosRetry(client, { retries: 3, retryDelay: () => 1 }); return (await client.get("https://a.example")).data; };`,
  ],
  [
    "needle",
    `import needle from "needle"; export default () => [typeof needle.get, typeof needle.post, typeof needle];`,
  ],
  [
    "ofetch",
    `import { ofetch, createFetch } from "ofetch"; export default async () => { const client = createFetch({ fetch: async (url, init) => new Response(JSON.stringify({ url: String(url), method: init.method, body: init.body }), { headers: { "content-type": "application/json" } }), Headers }); return [await client("https://a.example/x", { method: "POST", query: { a: 1 }, body: { b: 2 } }), typeof ofetch]; };`,
  ],
  [
    "wretch",
    `import wretch from "wretch"; export default async () => wretch("https://a.example").polyfills({ fetch: async (url, init) => new Response(JSON.stringify([url, init.method, init.body]), { headers: { "content-type": "application/json" } }) }).url("/x").post({ a: 1 }).json();`,
  ],
  [
    "bottleneck",
    `import Bottleneck from "bottleneck"; export default async () => { const limiter = new Bottleneck({ maxConcurrent: 1, minTime: 1 }); return await Promise.all([1, 2, 3].map((n) => limiter.schedule(async () => n * 2))); };`,
  ],
  [
    "cockatiel",
    `import { retry, handleAll, ConstantBackoff } from "cockatiel"; export default async () => { let n = 0; const policy = retry(handleAll, { maxAttempts: 3, backoff: new ConstantBackoff(1) }); return await policy.execute(() => { n += 1; if (n < 3) throw new Error("x"); return n; }); };`,
  ],
  [
    "opossum",
    `import CircuitBreaker from "opossum"; export default async () => { const breaker = new CircuitBreaker(async (n) => { if (n < 0) throw new Error("neg"); return n; }, { timeout: 1000, errorThresholdPercentage: 50 }); const out = [await breaker.fire(1), await breaker.fire(-1).catch((error) => error.message), breaker.opened]; breaker.shutdown(); return out; };`,
  ],
  [
    "rate-limiter-flexible",
    `import { RateLimiterMemory } from "rate-limiter-flexible"; export default async () => { const limiter = new RateLimiterMemory({ points: 2, duration: 60 }); const take = () => limiter.consume("k").then(({ remainingPoints }) => remainingPoints, ({ remainingPoints }) => "rejected " + remainingPoints); return [await take(), await take(), await take()]; };`,
  ],
  [
    "p-throttle",
    `import pThrottle from "p-throttle"; export default async () => { const run = pThrottle({ limit: 2, interval: 5 })(async (n) => n * 2); return await Promise.all([1, 2, 3].map((n) => run(n))); };`,
  ],
  [
    "async-retry",
    `import retry from "async-retry"; export default async () => retry(async (bail, attempt) => { if (attempt < 2) throw new Error("x"); return attempt; }, { retries: 2, minTimeout: 1 });`,
  ],
  [
    "oauth4webapi",
    `import * as oauth from "oauth4webapi"; export default async () => [await oauth.calculatePKCECodeChallenge("abc"), oauth.generateRandomCodeVerifier().length];`,
  ],
  [
    "simple-oauth2",
    `import { AuthorizationCode } from "simple-oauth2"; export default () => new AuthorizationCode({ client: { id: "id", secret: "secret" }, auth: { tokenHost: "https://a.example" } }).authorizeURL({ redirect_uri: "https://b.example", scope: "s", state: "x" });`,
  ],
  [
    "aws4",
    `import aws4 from "aws4"; export default () => aws4.sign({ service: "s3", path: "/b/k", headers: { "X-Amz-Date": "20200101T000000Z" } }, { accessKeyId: "a", secretAccessKey: "b" }).headers.Authorization;`,
  ],
  [
    "jwt-decode",
    `import { jwtDecode } from "jwt-decode"; export default () => jwtDecode("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x");`,
  ],
  [
    "node-html-parser",
    `import { parse } from "node-html-parser"; export default () => { const root = parse("<ul id=a><li class=b>1</li><li>2</li></ul>"); return [root.querySelectorAll("li").map((li) => li.text), root.querySelector(".b").toString()]; };`,
  ],
  [
    "@mozilla/readability",
    `import { Readability } from "@mozilla/readability"; import { parseHTML } from "linkedom"; export default () => { const { document } = parseHTML("<html><head><title>T</title></head><body><article><h1>H</h1>" + "<p>Some long text about something that matters to readers of articles, repeated.</p>".repeat(20) + "</article></body></html>"); const { title, textContent } = new Readability(document).parse(); return [title, textContent.length]; };`,
  ],
  [
    "xss",
    `import xss from "xss"; export default () => xss('<a href="javascript:x">a</a><script>1</script><b onclick=x>b</b>');`,
  ],
  [
    "isomorphic-dompurify",
    `import DOMPurify from "isomorphic-dompurify"; export default () => DOMPurify.sanitize('<img src=x onerror=alert(1)><b>ok</b><script>1</script>');`,
  ],
  [
    "gray-matter",
    `import matter from "gray-matter"; export default () => { const { data, content } = matter("---\\ntitle: a\\ntags: [x, y]\\n---\\nbody"); return [data, content]; };`,
  ],
  [
    "commonmark",
    'import { Parser, HtmlRenderer } from "commonmark"; export default () => new HtmlRenderer().render(new Parser().parse("# a\\n\\n*b* `c`"));',
  ],
  [
    "remark-gfm",
    `import { unified } from "unified"; import remarkParse from "remark-parse"; import remarkGfm from "remark-gfm"; import remarkRehype from "remark-rehype"; import rehypeStringify from "rehype-stringify"; export default async () => String(await unified().use(remarkParse).use(remarkGfm).use(remarkRehype).use(rehypeStringify).process("| a | b |\\n|---|---|\\n| 1 | ~~2~~ |"));`,
  ],
  [
    "rehype-parse",
    `import { unified } from "unified"; import rehypeParse from "rehype-parse"; import rehypeStringify from "rehype-stringify"; export default async () => String(await unified().use(rehypeParse, { fragment: true }).use(rehypeStringify).process("<p>a<b>c"));`,
  ],
  [
    "shiki",
    `import { createHighlighterCore } from "shiki/core"; import { createJavaScriptRegexEngine } from "shiki/engine/javascript"; import js from "shiki/langs/javascript.mjs"; import theme from "shiki/themes/nord.mjs"; export default async () => { const highlighter = await createHighlighterCore({ themes: [theme], langs: [js], engine: createJavaScriptRegexEngine() }); return highlighter.codeToHtml("const a = 1", { lang: "javascript", theme: "nord" }); };`,
  ],
  [
    "html-minifier-terser",
    `import { minify } from "html-minifier-terser"; export default () => minify("<p>  a   <!-- c --> <b>x</b></p><style> a { color: red } </style><script> var a = 1 + 1; </script>", { collapseWhitespace: true, removeComments: true, minifyCSS: true, minifyJS: true });`,
  ],
  [
    "feed",
    `import { Feed } from "feed"; export default () => { const feed = new Feed({ title: "t", id: "https://a.example/", link: "https://a.example/", feedLinks: { atom: "https://a.example/atom" }, copyright: "c", updated: new Date(0) }); feed.addItem({ title: "x", id: "https://a.example/1", link: "https://a.example/1", date: new Date(0) }); return [feed.rss2().length, feed.atom1()]; };`,
  ],
  [
    "sitemap",
    `import { SitemapStream, streamToPromise } from "sitemap"; export default async () => { const stream = new SitemapStream({ hostname: "https://a.example" }); stream.write({ url: "/x", changefreq: "daily", priority: 0.3 }); stream.end(); return (await streamToPromise(stream)).toString(); };`,
  ],
  [
    "mjml",
    `import mjml2html from "mjml"; export default async () => { const { html, errors } = await mjml2html("<mjml><mj-body><mj-section><mj-column><mj-text>Hi</mj-text></mj-column></mj-section></mj-body></mjml>"); return [html.includes("Hi"), errors.length]; };`,
  ],
  [
    "csv-parser",
    `import csv from "csv-parser"; import { Readable } from "node:stream"; export default async () => { const rows = []; for await (const row of Readable.from(["a,b\\n1,2\\n3,4\\n"]).pipe(csv())) rows.push({ ...row }); return rows; };`,
  ],
  [
    "csvtojson",
    `import csv from "csvtojson"; export default async () => csv({ checkType: true }).fromString("a,b.c\\n1,2\\n3,x");`,
  ],
  [
    "@json2csv/plainjs",
    `import { Parser } from "@json2csv/plainjs"; export default () => new Parser({ fields: ["a", "b"] }).parse([{ a: 1, b: 'x"y' }, { a: 2 }]);`,
  ],
  [
    "d3-dsv",
    `import { csvParse, tsvFormat } from "d3-dsv"; export default () => { const rows = csvParse("a,b\\n1,2"); return [rows.map((row) => ({ ...row })), rows.columns, tsvFormat(rows)]; };`,
  ],
  [
    "jspdf",
    `import { jsPDF } from "jspdf"; export default () => { const doc = new jsPDF(); doc.setFileId("0".repeat(32)); doc.setCreationDate(new Date(0)); doc.text("Hello", 10, 10); doc.addPage(); const text = doc.output(); return [text.slice(0, 8), doc.getNumberOfPages(), text.includes("Hello")]; };`,
  ],
  [
    "pdfmake",
    `import pdfmake from "pdfmake"; export default async () => { pdfmake.setFonts({ Helvetica: { normal: "Helvetica", bold: "Helvetica-Bold", italics: "Helvetica-Oblique", bolditalics: "Helvetica-BoldOblique" } }); const buffer = await pdfmake.createPdf({ content: ["Hello", { table: { body: [["a", "b"], ["1", "2"]] } }], defaultStyle: { font: "Helvetica" } }).getBuffer(); return [buffer.subarray(0, 5).toString(), buffer.length > 500]; };`,
  ],
  [
    "pdf-parse",
    `import { PDFParse } from "pdf-parse"; import { PDFDocument } from "pdf-lib"; export default async () => { const doc = await PDFDocument.create(); doc.addPage().drawText("Hello world"); const parser = new PDFParse({ data: await doc.save() }); const { text } = await parser.getText(); await parser.destroy(); delete globalThis.pdfjsWorker; return text.trim(); };`,
  ],
  [
    "pdfjs-dist",
    `import * as pdfjs from "pdfjs-dist/legacy/build/pdf.mjs"; import { PDFDocument } from "pdf-lib"; export default async () => { const doc = await PDFDocument.create(); doc.addPage().drawText("Hello world"); const loaded = await pdfjs.getDocument({ data: await doc.save(), useSystemFonts: false }).promise; const page = await loaded.getPage(1); return [loaded.numPages, (await page.getTextContent()).items.map(({ str }) => str)]; };`,
  ],
  [
    "unpdf",
    `import { extractText, getDocumentProxy } from "unpdf"; import { PDFDocument } from "pdf-lib"; export default async () => { const doc = await PDFDocument.create(); doc.addPage().drawText("Hello world"); const pdf = await getDocumentProxy(await doc.save()); return await extractText(pdf, { mergePages: true }); };`,
  ],
  [
    "docxtemplater",
    `import Docxtemplater from "docxtemplater"; import PizZip from "pizzip"; import { Document, Packer, Paragraph } from "docx"; export default async () => { const source = await Packer.toBuffer(new Document({ sections: [{ children: [new Paragraph("Hi {name}")] }] })); const doc = new Docxtemplater(new PizZip(source)); doc.render({ name: "Ada" }); return doc.getFullText(); };`,
  ],
  [
    "pizzip",
    `import PizZip from "pizzip"; export default () => { const zip = new PizZip(); zip.file("a.txt", "hello"); return new PizZip(zip.generate({ type: "uint8array" })).file("a.txt").asText(); };`,
  ],
  [
    "pptxgenjs",
    `import PptxGenJS from "pptxgenjs"; import JSZip from "jszip"; export default async () => { const deck = new PptxGenJS(); deck.addSlide().addText("Hello", { x: 1, y: 1 }); const zip = await JSZip.loadAsync(await deck.write({ outputType: "uint8array" })); return [Object.keys(zip.files).length, (await zip.file("ppt/slides/slide1.xml").async("string")).includes("Hello")]; };`,
  ],
  [
    "hyperformula",
    `import { HyperFormula } from "hyperformula"; export default () => { const sheet = HyperFormula.buildFromArray([[1, 2, "=SUM(A1:B1)"], ["=C1*2", "=IF(A2>5,\\"big\\",\\"small\\")"]], { licenseKey: "gpl-v3" }); return sheet.getSheetValues(0); };`,
  ],
  [
    "write-excel-file",
    `import writeXlsxFile from "write-excel-file/node"; export default async () => { const result = await writeXlsxFile([[{ value: "a", fontWeight: "bold" }], [{ value: 1, type: Number }]], { buffer: true }); const buffer = Buffer.isBuffer(result) ? result : await result.toBuffer(); return [buffer.length > 1000, buffer.subarray(0, 2).toString()]; };`,
  ],
  [
    "image-size",
    `import { imageSize } from "image-size"; export default () => imageSize(Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64"));`,
  ],
  [
    "gifenc",
    `import gifenc from "gifenc"; export default () => { const gif = gifenc.GIFEncoder(); gif.writeFrame(new Uint8Array([0, 1, 1, 0]), 2, 2, { palette: [[0, 0, 0], [255, 0, 0]] }); gif.finish(); return Buffer.from(gif.bytes()).toString("hex"); };`,
  ],
  [
    "upng-js",
    `import UPNG from "upng-js"; export default () => { const png = UPNG.encode([new Uint8Array(16).fill(255).buffer], 2, 2, 0); return [...new Uint8Array(UPNG.toRGBA8(UPNG.decode(png))[0])]; };`,
  ],
  [
    "pixelmatch",
    `import pixelmatch from "pixelmatch"; export default () => pixelmatch(new Uint8Array(16), new Uint8Array(16).fill(255), null, 2, 2, { threshold: 0.1 });`,
  ],
  [
    "blurhash",
    `import { encode, decode, isBlurhashValid } from "blurhash"; export default () => { const hash = encode(new Uint8ClampedArray(64).map((_, i) => i * 3), 4, 4, 2, 2); return [hash, [...decode(hash, 2, 2)], isBlurhashValid(hash)]; };`,
  ],
  [
    "bwip-js",
    `import bwipjs from "bwip-js"; export default async () => { const png = await bwipjs.toBuffer({ bcid: "code128", text: "ABC123", scale: 1 }); return [png.subarray(1, 4).toString(), bwipjs.toSVG({ bcid: "qrcode", text: "x" }).length]; };`,
  ],
  [
    "jsqr",
    `import jsQR from "jsqr"; import QRCode from "qrcode"; export default () => { const { modules } = QRCode.create("hello", {}); const scale = 4, margin = 16, side = modules.size * scale + 2 * margin; const pixels = new Uint8ClampedArray(side * side * 4).fill(255); for (let y = 0; y < modules.size * scale; y += 1) for (let x = 0; x < modules.size * scale; x += 1) if (modules.get(Math.floor(y / scale), Math.floor(x / scale))) pixels.fill(0, ((y + margin) * side + x + margin) * 4, ((y + margin) * side + x + margin) * 4 + 3); return (jsQR.default ?? jsQR)(pixels, side, side).data; };`,
  ],
  [
    "svgson",
    `import { parse, stringify } from "svgson"; export default async () => { const tree = await parse('<svg viewBox="0 0 1 1"><circle r="1"/></svg>'); return [tree, stringify(tree)]; };`,
  ],
  [
    "vega-lite",
    `import * as vegaLite from "vega-lite"; export default () => vegaLite.compile({ data: { values: [{ a: 1, b: 2 }] }, mark: "bar", encoding: { x: { field: "a", type: "ordinal" }, y: { field: "b", type: "quantitative" } } }).spec.marks.map(({ type }) => type);`,
  ],
  [
    "vega",
    `import * as vega from "vega"; export default async () => { const view = new vega.View(vega.parse({ width: 50, height: 50, data: [{ name: "t", values: [{ x: 1 }, { x: 3 }], transform: [{ type: "aggregate", ops: ["sum"], fields: ["x"], as: ["s"] }] }], marks: [{ type: "rect", from: { data: "t" }, encode: { enter: { width: { field: "s" }, height: { value: 5 } } } }] }), { renderer: "none" }); await view.runAsync(); return [view.data("t").map(({ s }) => s), (await view.toSVG()).startsWith("<svg")]; };`,
  ],
  [
    "d3",
    `import * as d3 from "d3"; export default () => [d3.line()([[0, 0], [1, 2]]), d3.hierarchy({ children: [{ value: 1 }, { value: 2 }] }).sum((d) => d.value ?? 0).value, d3.interpolateRgb("red", "blue")(0.5), d3.timeFormat("%Y")(new Date(2020, 1, 1))];`,
  ],
  [
    "@noble/ciphers",
    `import { gcm } from "@noble/ciphers/aes.js"; import { xchacha20poly1305 } from "@noble/ciphers/chacha.js"; export default () => [Buffer.from(gcm(new Uint8Array(32), new Uint8Array(12)).encrypt(new Uint8Array(3))).toString("hex"), xchacha20poly1305(new Uint8Array(32), new Uint8Array(24)).encrypt(new Uint8Array(2)).length];`,
  ],
  [
    "@scure/base",
    `import { base58, base64urlnopad, bech32 } from "@scure/base"; export default () => [base58.encode(new Uint8Array([1, 2, 3])), base64urlnopad.encode(new Uint8Array([255, 254])), bech32.encode("bc", bech32.toWords(new Uint8Array([1, 2])))];`,
  ],
  [
    "@scure/bip39",
    `import { mnemonicToSeedSync, validateMnemonic } from "@scure/bip39"; import { wordlist } from "@scure/bip39/wordlists/english.js"; export default () => { const words = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"; return [validateMnemonic(words, wordlist), Buffer.from(mnemonicToSeedSync(words)).toString("hex")]; };`,
  ],
  [
    "bs58",
    `import bs58 from "bs58"; export default () => [bs58.encode(new Uint8Array([0, 1, 2])), [...bs58.decode("15T")]];`,
  ],
  [
    "ethers",
    `import { Wallet, parseEther, formatUnits, Interface, keccak256, toUtf8Bytes } from "ethers"; export default async () => { const wallet = new Wallet("0x" + "11".repeat(32)); return [wallet.address, await wallet.signMessage("hi"), parseEther("1.5").toString(), formatUnits(123n, 2), new Interface(["function f(uint a)"]).encodeFunctionData("f", [1]), keccak256(toUtf8Bytes("a"))]; };`,
  ],
  [
    "viem",
    `import { parseEther, encodeFunctionData, getAddress } from "viem"; import { privateKeyToAccount } from "viem/accounts"; export default async () => { const account = privateKeyToAccount("0x" + "11".repeat(32)); return [account.address, await account.signMessage({ message: "hi" }), String(parseEther("1")), encodeFunctionData({ abi: [{ type: "function", name: "f", inputs: [{ type: "uint256", name: "a" }], outputs: [], stateMutability: "view" }], functionName: "f", args: [1n] }), getAddress("0x" + "aa".repeat(20))]; };`,
  ],
  [
    "hash-wasm",
    `import { sha256, md5, argon2id, blake3 } from "hash-wasm"; export default async () => [await sha256("a"), await md5("a"), await blake3("a"), await argon2id({ password: "p", salt: new Uint8Array(16), parallelism: 1, iterations: 2, memorySize: 64, hashLength: 16, outputType: "hex" })];`,
    ["webAssembly"],
  ],
  [
    "jsrsasign",
    `import rs from "jsrsasign"; export default () => [rs.KJUR.crypto.Util.sha256("a"), rs.KJUR.jws.JWS.sign("HS256", '{"alg":"HS256"}', '{"sub":"1"}', { utf8: "secret" })];`,
  ],
  [
    "openpgp",
    `import * as openpgp from "openpgp"; export default async () => { const message = await openpgp.createMessage({ text: "hello" }); const encrypted = await openpgp.encrypt({ message, passwords: ["pw"] }); const { data } = await openpgp.decrypt({ message: await openpgp.readMessage({ armoredMessage: encrypted }), passwords: ["pw"] }); return data; };`,
  ],
  [
    "otplib",
    `import * as otplib from "otplib"; export default async () => { const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"; if (otplib.authenticator) return otplib.authenticator.generate(secret).length; return [(await otplib.generate({ secret, epoch: 59 })), typeof otplib.verify]; };`,
  ],
  [
    "@paralleldrive/cuid2",
    `import { createId, isCuid } from "@paralleldrive/cuid2"; export default () => [createId().length, isCuid(createId())];`,
  ],
  [
    "hashids",
    `import Hashids from "hashids"; export default () => { const ids = new Hashids("salt", 8); return [ids.encode(1, 2, 3), ids.decode(ids.encode(42))]; };`,
  ],
  [
    "sqids",
    `import Sqids from "sqids"; export default () => { const sqids = new Sqids(); return [sqids.encode([1, 2, 3]), sqids.decode("86Rf07")]; };`,
  ],
  ["crc-32", `import CRC32 from "crc-32"; export default () => [CRC32.str("hello"), CRC32.buf([1, 2, 3])];`],
  ["blakejs", `import blake from "blakejs"; export default () => [blake.blake2bHex("a"), blake.blake2sHex("a")];`],
  [
    "xxhash-wasm",
    `import xxhash from "xxhash-wasm"; export default async () => { const { h32ToString, h64ToString } = await xxhash(); return [h32ToString("a"), h64ToString("a")]; };`,
    ["webAssembly"],
  ],
  [
    "@faker-js/faker",
    `import { faker } from "@faker-js/faker"; export default () => { faker.seed(1); return [faker.person.fullName(), faker.internet.email(), faker.number.int(100)]; };`,
  ],
  [
    "chance",
    `import Chance from "chance"; export default () => { const chance = new Chance(1); return [chance.name(), chance.integer({ min: 1, max: 9 }), chance.guid()]; };`,
  ],
  [
    "date-fns-tz",
    `import { formatInTimeZone, fromZonedTime } from "date-fns-tz"; export default () => [formatInTimeZone(new Date(0), "America/New_York", "yyyy-MM-dd HH:mm zzz"), fromZonedTime("2020-07-01 12:00", "Europe/Berlin").toISOString()];`,
  ],
  [
    "chrono-node",
    `import * as chrono from "chrono-node"; export default () => [chrono.parseDate("tomorrow at 5pm", { instant: new Date(0), timezone: "UTC" }).toISOString(), chrono.parse("next friday", new Date(0)).length];`,
  ],
  [
    "@js-temporal/polyfill",
    `import { Temporal } from "@js-temporal/polyfill"; export default () => [Temporal.PlainDate.from("2020-01-31").add({ months: 1 }).toString(), Temporal.Duration.from({ hours: 25 }).round({ largestUnit: "day" }).toString()];`,
  ],
  [
    "humanize-duration",
    `import humanizeDuration from "humanize-duration"; export default () => [humanizeDuration(3600000 * 26 + 5000), humanizeDuration(1000, { language: "de" })];`,
  ],
  [
    "pretty-ms",
    `import prettyMs from "pretty-ms"; export default () => [prettyMs(1337000000), prettyMs(133, { verbose: true })];`,
  ],
  [
    "cronstrue",
    `import cronstrue from "cronstrue"; export default () => [cronstrue.toString("*/5 * * * 1-5"), cronstrue.toString("0 9 1 * *")];`,
  ],
  [
    "croner",
    `import { Cron } from "croner"; export default () => new Cron("0 12 * * 1", { timezone: "Europe/Berlin" }).nextRuns(2, "2020-01-01T00:00:00").map((date) => date.toISOString());`,
  ],
  [
    "moment-timezone",
    `import moment from "moment-timezone"; export default () => [moment.tz("2020-07-01 12:00", "Europe/Berlin").utc().format(), moment(0).tz("Asia/Tokyo").format("HH:mm z"), moment(0).tz("Asia/Tokyo").locale("fr").format("LLLL")];`,
  ],
  [
    "i18n-iso-countries",
    `import countries from "i18n-iso-countries"; export default () => [countries.getName("DE", "en"), countries.alpha2ToAlpha3("FR"), countries.getAlpha2Code("Spain", "en")];`,
  ],
  [
    "node-ical",
    `import ical from "node-ical"; export default () => { const data = ical.sync.parseICS("BEGIN:VCALENDAR\\r\\nBEGIN:VEVENT\\r\\nUID:1\\r\\nSUMMARY:Meet\\r\\nDTSTART:20200101T100000Z\\r\\nDTEND:20200101T110000Z\\r\\nEND:VEVENT\\r\\nEND:VCALENDAR"); return Object.values(data).filter(({ type }) => type === "VEVENT").map(({ summary, start }) => [summary, start.toISOString()]); };`,
  ],
  [
    "ics",
    `import { createEvent } from "ics"; export default () => { const { error, value } = createEvent({ uid: "1", start: [2020, 1, 1, 10, 0], duration: { hours: 1 }, title: "Meet", timestamp: 0 }); return [error, value.includes("SUMMARY:Meet")]; };`,
  ],
  [
    "ical-generator",
    `import ical from "ical-generator"; export default () => { const calendar = ical({ name: "c" }); calendar.createEvent({ id: "1", start: new Date(0), end: new Date(3600000), summary: "Meet", stamp: new Date(0) }); return calendar.toString(); };`,
  ],
  [
    "jstat",
    `import jstat from "jstat"; export default () => { const { jStat } = jstat; return [jStat.mean([1, 2, 3]), jStat.normal.cdf(1.96, 0, 1).toFixed(4), jStat.studentt.inv(0.975, 10).toFixed(4)]; };`,
  ],
  [
    "ml-regression",
    `import { SimpleLinearRegression, PolynomialRegression } from "ml-regression"; export default () => [new SimpleLinearRegression([1, 2, 3], [2, 4, 6]).predict(4), new PolynomialRegression([1, 2, 3], [1, 4, 9], 2).predict(4).toFixed(3)];`,
  ],
  [
    "convert-units",
    `import * as units from "convert-units"; export default () => { const convert = units.default ?? units; return typeof convert === "function" ? convert(1).from("kg").to("lb") : Object.keys(units).sort(); };`,
  ],
  [
    "rbush",
    `import RBush from "rbush"; export default () => { const tree = new RBush(); tree.load([{ minX: 0, minY: 0, maxX: 1, maxY: 1, id: 1 }, { minX: 5, minY: 5, maxX: 6, maxY: 6, id: 2 }]); return tree.search({ minX: 0, minY: 0, maxX: 2, maxY: 2 }).map(({ id }) => id); };`,
  ],
  [
    "h3-js",
    `import { latLngToCell, cellToBoundary, gridDisk } from "h3-js"; export default () => { const cell = latLngToCell(52.5, 13.4, 7); return [cell, cellToBoundary(cell).length, gridDisk(cell, 1).length]; };`,
  ],
  [
    "proj4",
    `import proj4 from "proj4"; export default () => proj4("EPSG:4326", "EPSG:3857", [13.4, 52.5]).map((n) => n.toFixed(2));`,
  ],
  [
    "suncalc",
    `import * as module from "suncalc"; export default () => { const sun = module.default ?? module; return sun.getTimes(new Date(1577880000000), 52.5, 13.4).sunrise.toISOString(); };`,
  ],
  [
    "wink-nlp",
    `import winkNLP from "wink-nlp"; import model from "wink-eng-lite-web-model"; export default () => { const nlp = winkNLP(model); const doc = nlp.readDoc("Ada Lovelace paid $20 in London on 3 May 2020. She liked it."); return [doc.sentences().out(), doc.entities().out(), doc.tokens().out(nlp.its.pos).slice(0, 4)]; };`,
  ],
  [
    "stemmer",
    `import { stemmer } from "stemmer"; export default () => ["considerations", "running", "cats"].map(stemmer);`,
  ],
  [
    "syllable",
    `import { syllable } from "syllable"; export default () => ["syllable", "unicorn", "queue"].map((word) => syllable(word));`,
  ],
  [
    "keyword-extractor",
    `import extractor from "keyword-extractor"; export default () => extractor.extract("President Obama woke up Monday facing a Congressional defeat", { language: "english", remove_digits: true, return_changed_case: true });`,
  ],
  [
    "transliteration",
    `import { transliterate, slugify } from "transliteration"; export default () => [transliterate("你好 мир"), slugify("Ärger über ñ")];`,
  ],
  [
    "retext-english",
    `import { unified } from "unified"; import retextEnglish from "retext-english"; export default () => unified().use(retextEnglish).parse("Hello world. Bye.").children[0].children.filter(({ type }) => type === "SentenceNode").length;`,
  ],
  [
    "tldts",
    `import { parse, getDomain } from "tldts"; export default () => [parse("https://a.b.example.co.uk/x").domain, getDomain("x.github.io", { allowPrivateDomains: true })];`,
  ],
  [
    "psl",
    `import psl from "psl"; export default () => [psl.get("a.b.example.co.uk"), psl.isValid("example.com"), psl.parse("www.google.com")];`,
  ],
  [
    "normalize-url",
    `import normalizeUrl from "normalize-url"; export default () => normalizeUrl("HTTP://www.Example.com:80/a/../b?z=1&a=2#x", { stripHash: true });`,
  ],
  [
    "json-rules-engine",
    `import { Engine } from "json-rules-engine"; export default async () => { const engine = new Engine(); engine.addRule({ conditions: { any: [{ fact: "age", operator: "greaterThan", value: 17 }] }, event: { type: "adult" } }); const { events } = await engine.run({ age: 20 }); return events; };`,
  ],
  [
    "jsonpath",
    `import jp from "jsonpath"; export default () => [jp.query({ a: [{ b: 1 }, { b: 2 }] }, "$.a[?(@.b>1)].b"), jp.paths({ a: [1] }, "$..*")];`,
  ],
  [
    "jsondiffpatch",
    `import * as jsondiffpatch from "jsondiffpatch"; export default () => { const d = jsondiffpatch.create({ objectHash: (o) => o.id }); const delta = d.diff({ a: [{ id: 1 }, { id: 2 }] }, { a: [{ id: 2 }, { id: 3 }] }); return [delta, d.patch({ a: [{ id: 1 }, { id: 2 }] }, delta)]; };`,
  ],
  [
    "json-bigint",
    `import JSONbig from "json-bigint"; export default () => [JSONbig.stringify(JSONbig.parse('{"a":12345678901234567890}')), JSONbig({ storeAsString: true }).parse('{"a":12345678901234567890}').a];`,
  ],
  [
    "lossless-json",
    `import { parse, stringify } from "lossless-json"; export default () => stringify(parse('{"a":2.370,"b":12345678901234567890}'));`,
  ],
  ["jsonrepair", `import { jsonrepair } from "jsonrepair"; export default () => jsonrepair("{a: 'x', b: [1,2,}");`],
  [
    "hjson",
    `import Hjson from "hjson"; export default () => [Hjson.parse("{ a: 1 # c\\n b: text\\n }"), Hjson.stringify({ a: [1] })];`,
  ],
  [
    "@iarna/toml",
    `import TOML from "@iarna/toml"; export default () => [TOML.parse("a = 1\\n[b]\\nc = 'x'"), TOML.stringify({ a: 1, b: { c: [1, 2] } })];`,
  ],
  [
    "plist",
    `import * as plist from "plist"; export default () => [plist.parse("<plist><dict><key>a</key><integer>1</integer></dict></plist>"), plist.build({ a: [1, "x"] })];`,
  ],
  [
    "avsc",
    `import avro from "avsc"; export default () => { const type = avro.Type.forSchema({ type: "record", name: "R", fields: [{ name: "a", type: "int" }, { name: "b", type: "string" }] }); const buffer = type.toBuffer({ a: 1, b: "x" }); return [buffer.toString("hex"), { ...type.fromBuffer(buffer) }]; };`,
  ],
  [
    "msgpackr",
    `import { pack, unpack, Packr } from "msgpackr"; export default () => [Buffer.from(pack({ a: [1, "x", null], d: 1.5 })).toString("hex"), unpack(pack({ a: 1 })), unpack(new Packr({ useRecords: false }).pack([1]))];`,
  ],
  [
    "hyparquet",
    `import * as hyparquet from "hyparquet"; export default () => [typeof hyparquet.parquetReadObjects, typeof hyparquet.parquetMetadata];`,
  ],
  [
    "apache-arrow",
    `import { tableFromArrays, tableToIPC, tableFromIPC } from "apache-arrow"; export default () => { const table = tableFromArrays({ a: Int32Array.from([1, 2, 3]), b: ["x", "y", "z"] }); const again = tableFromIPC(tableToIPC(table)); return [again.numRows, again.toArray().map((row) => row.toJSON())]; };`,
  ],
  [
    "es-toolkit",
    `import { chunk, debounce, groupBy, merge } from "es-toolkit"; export default () => [chunk([1, 2, 3], 2), groupBy([1, 2, 3], (n) => (n % 2 ? "odd" : "even")), merge({ a: 1 }, { b: 2 }), typeof debounce];`,
  ],
  [
    "radash",
    `import { group, parallel, retry, sift } from "radash"; export default async () => [group([1, 2], (n) => n), await parallel(2, [1, 2, 3], async (n) => n * 2), sift([0, 1, null]), await retry({ times: 2 }, async () => 1)];`,
  ],
  [
    "dataloader",
    `import DataLoader from "dataloader"; export default async () => { const batches = []; const loader = new DataLoader(async (keys) => { batches.push([...keys]); return keys.map((key) => key * 2); }); return [await Promise.all([loader.load(1), loader.load(2), loader.load(1)]), batches]; };`,
  ],
  [
    "eventemitter2",
    `import EventEmitter2 from "eventemitter2"; export default () => { const emitter = new EventEmitter2.EventEmitter2({ wildcard: true }); const seen = []; emitter.on("a.*", (value) => seen.push(value)); emitter.emit("a.b", 1); return seen; };`,
  ],
  [
    "graphology",
    `import Graph from "graphology"; export default () => { const graph = new Graph(); graph.addNode("a"); graph.addNode("b"); graph.addEdge("a", "b", { weight: 2 }); return [graph.order, graph.neighbors("a"), graph.export().nodes.length]; };`,
  ],
  [
    "@dagrejs/dagre",
    `import dagre from "@dagrejs/dagre"; export default () => { const g = new dagre.graphlib.Graph(); g.setGraph({}); g.setDefaultEdgeLabel(() => ({})); g.setNode("a", { width: 10, height: 10 }); g.setNode("b", { width: 10, height: 10 }); g.setEdge("a", "b"); dagre.layout(g); return g.nodes().map((n) => [n, g.node(n).x, g.node(n).y]); };`,
  ],
  [
    "match-sorter",
    `import { matchSorter } from "match-sorter"; export default () => matchSorter(["apple", "banana", "grape", "pineapple"], "ap");`,
  ],
  [
    "fuzzysort",
    `import fuzzysort from "fuzzysort"; export default () => fuzzysort.go("mr", ["Monitor.cpp", "MeshRenderer.cpp"]).map(({ target }) => target);`,
  ],
  [
    "xregexp",
    `import XRegExp from "xregexp"; export default () => [XRegExp.exec("2020-01-02", XRegExp("(?<year>\\\\d{4})-(?<month>\\\\d\\\\d)")).groups.year, XRegExp.replace("äß", XRegExp("\\\\p{L}", "g"), "x")];`,
  ],
  [
    "parsimmon",
    `import P from "parsimmon"; export default () => P.sepBy(P.regexp(/[0-9]+/).map(Number), P.string(",")).wrap(P.string("["), P.string("]")).parse("[1,2,3]");`,
  ],
  [
    "ohm-js",
    `import * as ohm from "ohm-js"; export default () => { const g = ohm.grammar('Sum { Exp = number "+" number  number = digit+ }'); const s = g.createSemantics().addOperation("value", { Exp: (a, _, b) => a.value() + b.value(), number: (digits) => Number(digits.sourceString) }); return s(g.match("1+23")).value(); };`,
  ],
  [
    "antlr4",
    `import antlr4 from "antlr4"; export default () => { const stream = new antlr4.InputStream("abc"); return [stream.size, stream.getText(0, 1)]; };`,
  ],
  [
    "@babel/core",
    `import * as babel from "@babel/core"; export default () => babel.transformSync("const a = 1 ?? 2;", { configFile: false, babelrc: false, plugins: [({ types: t }) => ({ visitor: { Identifier(path) { path.node.name = "z"; } } })] }).code;`,
  ],
  [
    "@babel/standalone",
    `import * as Babel from "@babel/standalone"; export default () => (Babel.default ?? Babel).transform("const f = (a: number) => <b>{a}</b>", { presets: ["react", "typescript"], filename: "a.tsx" }).code;`,
  ],
  [
    "recast",
    `import * as recast from "recast"; export default () => { const ast = recast.parse("var a  =  1; // c"); ast.program.body[0].kind = "const"; return recast.print(ast).code; };`,
  ],
  [
    "meriyah",
    `import { parseModule } from "meriyah"; export default () => parseModule("export const a = 1").body[0].type;`,
  ],
  [
    "uglify-js",
    `import UglifyJS from "uglify-js"; export default () => UglifyJS.minify("function f(abc) { return abc + 1 + 2; }").code;`,
  ],
  [
    "sass",
    `import * as sass from "sass"; export default () => sass.compileString("$a: red; .x { .y { color: darken($a, 10%); } }", { silenceDeprecations: ["color-functions", "global-builtin"], logger: sass.Logger.silent }).css;`,
  ],
  [
    "tailwind-merge",
    `import { twMerge } from "tailwind-merge"; export default () => twMerge("px-2 py-1 bg-red", "p-3 bg-blue");`,
  ],
  [
    "dot",
    `import doT from "dot"; export default () => doT.template("Hi {{=it.name}}{{~it.list:x}} {{=x}}{{~}}")({ name: "a", list: [1, 2] });`,
  ],
  [
    "hogan.js",
    `import Hogan from "hogan.js"; export default () => Hogan.compile("Hi {{name}} {{#list}}{{.}},{{/list}}").render({ name: "a", list: [1, 2] });`,
  ],
  [
    "velocityjs",
    `import velocity from "velocityjs"; export default () => velocity.render("Hi $name #foreach($x in $list)$x,#end", { name: "a", list: [1, 2] });`,
  ],
  [
    "svelte",
    `import { compile } from "svelte/compiler"; export default () => compile("<script>let { a } = $props();</script><p>{a}</p>", { generate: "server", name: "X" }).js.code.includes("<p>");`,
  ],
  [
    "fastify",
    `import Fastify from "fastify"; export default async () => { const app = Fastify(); app.get("/x/:id", async () => "x"); await app.ready(); return app.printRoutes(); };`,
  ],
  [
    "h3",
    `import { H3 } from "h3"; export default async () => { const app = new H3(); app.get("/x/:id", (event) => ({ id: event.context.params.id })); const response = await app.request("/x/7"); return [response.status, await response.json()]; };`,
  ],
  [
    "find-my-way",
    `import FindMyWay from "find-my-way"; export default () => { const router = FindMyWay(); router.on("GET", "/a/:id", () => {}); return router.find("GET", "/a/5").params; };`,
  ],
  [
    "busboy",
    `import busboy from "busboy"; import { Readable } from "node:stream"; export default () => new Promise((resolve) => { const fields = []; const parser = busboy({ headers: { "content-type": "multipart/form-data; boundary=X" } }); parser.on("field", (name, value) => fields.push([name, value])); parser.on("close", () => resolve(fields)); Readable.from([Buffer.from('--X\\r\\nContent-Disposition: form-data; name="a"\\r\\n\\r\\n1\\r\\n--X--\\r\\n')]).pipe(parser); });`,
  ],
  [
    "@zip.js/zip.js",
    `import { BlobWriter, BlobReader, ZipWriter, ZipReader, TextReader, TextWriter } from "@zip.js/zip.js"; export default async () => { const writer = new ZipWriter(new BlobWriter("application/zip")); await writer.add("a.txt", new TextReader("hello")); const reader = new ZipReader(new BlobReader(await writer.close())); const [entry] = await reader.getEntries(); return [entry.filename, await entry.getData(new TextWriter())]; };`,
  ],
  [
    "fzstd",
    `import { decompress } from "fzstd"; import zlib from "node:zlib"; export default () => new TextDecoder().decode(decompress(new Uint8Array(zlib.zstdCompressSync(Buffer.from("hello"))))); `,
  ],
  [
    "yazl",
    `import yazl from "yazl"; export default async () => { const zip = new yazl.ZipFile(); zip.addBuffer(Buffer.from("hello"), "a.txt", { mtime: new Date(1e12) }); zip.end(); const parts = []; for await (const part of zip.outputStream) parts.push(part); return Buffer.concat(parts).subarray(0, 4).toString("hex"); };`,
  ],
  [
    "stream-json",
    `import { Readable } from "node:stream"; import * as all from "stream-json"; export default async () => { const parser = all.parser ?? all.default.parser; const names = []; for await (const token of Readable.from(['{"a":[1,2]}']).pipe(parser.asStream ? parser.asStream() : parser())) names.push(token.name); return names; };`,
  ],
  [
    "file-type",
    `import { fileTypeFromBuffer } from "file-type"; export default () => fileTypeFromBuffer(Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154789c6300010000050001", "hex"));`,
  ],
  [
    "chardet",
    `import chardet from "chardet"; export default () => [chardet.detect(Buffer.from("h\\u00e9llo w\\u00f6rld")), chardet.detect(Buffer.from("caf\\u00e9 na\\u00efve r\\u00e9sum\\u00e9", "latin1"))];`,
  ],
  [
    "music-metadata",
    `import { parseBuffer } from "music-metadata"; export default async () => { const wav = Buffer.alloc(44 + 8000); wav.write("RIFF", 0); wav.writeUInt32LE(36 + 8000, 4); wav.write("WAVEfmt ", 8); wav.writeUInt32LE(16, 16); wav.writeUInt16LE(1, 20); wav.writeUInt16LE(1, 22); wav.writeUInt32LE(8000, 24); wav.writeUInt32LE(8000, 28); wav.writeUInt16LE(1, 32); wav.writeUInt16LE(8, 34); wav.write("data", 36); wav.writeUInt32LE(8000, 40); const { format } = await parseBuffer(wav, { mimeType: "audio/wav" }); return [format.container, format.duration, format.sampleRate]; };`,
  ],
  [
    "exifr",
    `import exifr from "exifr"; export default async () => { const seg = Buffer.from("ffd8ffe1002245786966000049492a00080000000100120103000100000006000000" + "00000000" + "ffd9", "hex"); return await exifr.orientation(seg); };`,
  ],
  [
    "srt-parser-2",
    `import srtParser2 from "srt-parser-2"; export default () => { const Parser = srtParser2.default ?? srtParser2; return new Parser().fromSrt("1\\n00:00:01,000 --> 00:00:02,000\\nhello\\n"); };`,
  ],
  [
    "keyv",
    `import Keyv from "keyv"; export default async () => { const store = new Keyv(); await store.set("a", { b: 1 }); return [await store.get("a"), await store.delete("a"), await store.get("a")]; };`,
  ],
  ["isomorphic-ws", `import WebSocket from "isomorphic-ws"; export default () => [typeof WebSocket, WebSocket.OPEN];`],
  [
    "eventsource",
    `import { EventSource } from "eventsource"; export default () => [typeof EventSource, EventSource.OPEN];`,
  ],
  [
    "eventsource-parser",
    `import { createParser } from "eventsource-parser"; export default () => { const events = []; const parser = createParser({ onEvent: (event) => events.push(event) }); parser.feed("event: a\\ndata: 1\\n\\ndata: 2\\n\\n"); return events; };`,
  ],
  [
    "@modelcontextprotocol/sdk",
    `import { Client } from "@modelcontextprotocol/sdk/client/index.js"; import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"; import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js"; import { z } from "zod"; export default async () => { const server = new McpServer({ name: "s", version: "1" }); server.registerTool("add", { inputSchema: { a: z.number(), b: z.number() } }, async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }] })); const [one, two] = InMemoryTransport.createLinkedPair(); const client = new Client({ name: "c", version: "1" }); await Promise.all([server.connect(one), client.connect(two)]); return (await client.callTool({ name: "add", arguments: { a: 1, b: 2 } })).content; };`,
  ],
  [
    "gpt-3-encoder",
    `import { encode, decode } from "gpt-3-encoder"; export default () => [encode("Hello world, this is a test"), decode(encode("x y"))];`,
  ],
  [
    "tiktoken",
    `import { get_encoding } from "tiktoken"; export default () => { const encoding = get_encoding("cl100k_base"); const tokens = [...encoding.encode("Hello world")]; encoding.free(); return tokens; };`,
    ["webAssembly"],
  ],
  [
    "linebreak",
    `import LineBreaker from "linebreak"; export default () => { const breaker = new LineBreaker("Hello big world"); const at = []; for (let b = breaker.nextBreak(); b; b = breaker.nextBreak()) at.push(b.position); return at; };`,
  ],
  ["emoji-regex", `import emojiRegex from "emoji-regex"; export default () => "a 😀 b 👩‍👩‍👧".match(emojiRegex());`],
  ["mqtt", `import mqtt from "mqtt"; export default () => [typeof (mqtt.connect ?? mqtt.default.connect)];`],
  [
    "@trpc/server",
    `import { initTRPC } from "@trpc/server"; import { z } from "zod"; export default async () => { const t = initTRPC.create(); const router = t.router({ add: t.procedure.input(z.object({ a: z.number() })).query(({ input }) => input.a + 1) }); return await router.createCaller({}).add({ a: 1 }); };`,
  ],
  ["@slack/bolt", `import bolt from "@slack/bolt"; export default () => typeof bolt.App;`],
  [
    "@discordjs/rest",
    `import { REST } from "@discordjs/rest"; export default () => { const r = new REST({version:"10"}); return [typeof r.get, r.options.version]; };`,
  ],
  [
    "discord-api-types",
    `import { Routes } from "discord-api-types/v10"; export default () => Routes.channelMessages("1");`,
  ],
  [
    "@azure/identity",
    `import { ClientSecretCredential } from "@azure/identity"; export default () => typeof new ClientSecretCredential("t","c","s").getToken;`,
  ],
  [
    "@azure/cosmos",
    `import { CosmosClient } from "@azure/cosmos"; export default () => typeof new CosmosClient({endpoint:"https://a.documents.azure.com", key:"a2V5"}).database;`,
  ],
  ["firebase-admin", `import { cert } from "firebase-admin/app"; export default () => typeof cert;`],
  ["@sentry/node", `import * as Sentry from "@sentry/node"; export default () => typeof Sentry.captureException;`],
  [
    "posthog-node",
    `import { PostHog } from "posthog-node"; export default () => typeof new PostHog("k",{host:"https://a.example"}).capture;`,
  ],
  ["mixpanel", `import Mixpanel from "mixpanel"; export default () => typeof Mixpanel.init("x").track;`],
  [
    "@segment/analytics-node",
    `import { Analytics } from "@segment/analytics-node"; export default () => typeof new Analytics({writeKey:"k"}).track;`,
  ],
  [
    "contentful-management",
    `import { createClient } from "contentful-management"; export default () => typeof createClient({accessToken:"x"}).getSpace;`,
  ],
  [
    "shopify-api-node",
    `import Shopify from "shopify-api-node"; export default () => typeof new Shopify({shopName:"a",accessToken:"b"}).product.list;`,
  ],
  [
    "@shopify/shopify-api",
    `import "@shopify/shopify-api/adapters/node"; import { shopifyApi, ApiVersion } from "@shopify/shopify-api"; export default () => typeof shopifyApi;`,
  ],
  [
    "intercom-client",
    `import { IntercomClient } from "intercom-client"; export default () => typeof new IntercomClient({token:"t"}).contacts;`,
  ],
  [
    "node-zendesk",
    `import zendesk from "node-zendesk"; export default () => typeof zendesk.createClient({username:"a",token:"b",subdomain:"c"}).tickets.list;`,
  ],
  ["pipedrive", `import * as p from "pipedrive"; export default () => typeof p;`],
  [
    "jira.js",
    `import { Version3Client } from "jira.js"; export default () => typeof new Version3Client({host:"https://a.example"}).issues.getIssue;`,
  ],
  ["asana", `import Asana from "asana"; export default () => typeof Asana.ApiClient.instance;`],
  [
    "@microsoft/microsoft-graph-client",
    `import { Client } from "@microsoft/microsoft-graph-client"; export default () => typeof Client.init({authProvider: (d) => d(null,"t")}).api("/me").get;`,
  ],
  [
    "@azure/msal-node",
    `import { ConfidentialClientApplication } from "@azure/msal-node"; export default () => typeof new ConfidentialClientApplication({auth:{clientId:"a",clientSecret:"b",authority:"https://login.microsoftonline.com/c"}}).acquireTokenByClientCredential;`,
  ],
  [
    "feedparser",
    `import FeedParser from "feedparser"; import { Readable } from "node:stream"; export default () => new Promise((res, rej) => { const f = new FeedParser({}); const out=[]; f.on("error", rej); f.on("readable", () => { let i; while ((i = f.read())) out.push(i.title); }); f.on("end", () => res(out)); Readable.from(["<rss version='2.0'><channel><title>t</title><item><title>one</title></item></channel></rss>"]).pipe(f); });`,
  ],
  [
    "xlsx-populate",
    `import X from "xlsx-populate"; export default async () => { const w = await X.fromBlankAsync(); w.sheet(0).cell("A1").value("hi"); const b = await w.outputAsync(); const r = await X.fromDataAsync(b); return r.sheet(0).cell("A1").value(); };`,
  ],
  ["soap", `import soap from "soap"; export default () => typeof soap.createClientAsync;`],
  ["pdf2json", `import P from "pdf2json"; export default () => typeof new P().parseBuffer;`],
  ["pdfreader", `import { PdfReader } from "pdfreader"; export default () => typeof new PdfReader().parseBuffer;`],
  [
    "echarts",
    `import * as echarts from "echarts"; export default () => { const c = echarts.init(null,null,{renderer:"svg",ssr:true,width:200,height:100}); c.setOption({animation:false,xAxis:{type:"category",data:["a","b"]},yAxis:{},series:[{type:"bar",data:[1,2]}]}); const s = c.renderToSVGString(); return s.length > 500 && s.startsWith("<svg"); };`,
  ],
  ["chart.js", `import { Chart } from "chart.js"; export default () => typeof Chart;`],
  ["json-logic-js", `import j from "json-logic-js"; export default () => j.apply({"==":[1,1]});`],
  ["jexl", `import jexl from "jexl"; export default async () => await jexl.eval("a.b + 1", {a:{b:2}});`],
  ["nerdamer", `import n from "nerdamer"; export default () => n("x^2+2*x", {x:2}).evaluate().text();`],
  ["algebrite", `import A from "algebrite"; export default () => A.run("x+x");`],
  ["tz-lookup", `import tz from "tz-lookup"; export default () => tz(40.7, -74);`],
  ["geo-tz", `import { find } from "geo-tz"; export default () => find(40.7, -74);`],
  ["zipcodes", `import z from "zipcodes"; export default () => z.lookup(90210).city;`],
  ["iban", `import i from "iban"; export default () => i.isValid("DE89370400440532013000");`],
  [
    "country-state-city",
    `import { Country } from "country-state-city"; export default () => Country.getCountryByCode("DE").name;`,
  ],
  ["uuidv7", `import { uuidv7 } from "uuidv7"; export default () => uuidv7().length;`],
  [
    "node-jose",
    `import jose from "node-jose"; export default async () => { const k = await jose.JWK.createKey("oct",256,{alg:"A256GCM"}); const e = await jose.JWE.createEncrypt({format:"compact"},k).update("hi").final(); return (await jose.JWE.createDecrypt(k).decrypt(e)).payload.toString(); };`,
  ],
  [
    "speakeasy",
    `import s from "speakeasy"; export default () => s.totp({secret:"JBSWY3DPEHPK3PXP",encoding:"base32",time:0});`,
  ],
  ["web3-utils", `import { toWei, sha3 } from "web3-utils"; export default () => [toWei("1","ether"), sha3("a")];`],
  ["bitcoinjs-lib", `import * as b from "bitcoinjs-lib"; export default () => typeof b.payments.p2pkh;`],
  [
    "@stellar/stellar-sdk",
    `import { Keypair } from "@stellar/stellar-sdk"; export default () => Keypair.fromRawEd25519Seed(Buffer.alloc(32)).publicKey();`,
  ],
  [
    "@ai-sdk/openai",
    `import { createOpenAI } from "@ai-sdk/openai"; export default () => typeof createOpenAI({apiKey:"x"})("gpt-4o").doGenerate;`,
  ],
  [
    "zod-validation-error",
    `import { fromError } from "zod-validation-error"; import { z } from "zod"; export default () => fromError(z.object({a:z.string()}).safeParse({a:1}).error).toString();`,
  ],
  [
    "@openai/agents",
    `import { Agent, tool } from "@openai/agents"; export default () => new Agent({name:"a",instructions:"b"}).name;`,
  ],
  ["brain.js", `import brain from "brain.js"; export default () => typeof brain;`],
  [
    "ml-kmeans",
    `import { kmeans } from "ml-kmeans"; export default () => kmeans([[1,1],[1,2],[9,9]],2,{seed:1}).clusters;`,
  ],
  [
    "@nlpjs/core",
    `import { containerBootstrap } from "@nlpjs/core"; export default async () => typeof await containerBootstrap();`,
  ],
  [
    "isomorphic-git",
    `import git from "isomorphic-git"; export default async () => (await git.hashBlob({object:"hi"})).oid;`,
  ],
  [
    "unzipper",
    `import unzipper from "unzipper"; import JSZip from "jszip"; export default async () => { const z = new JSZip(); z.file("a.txt","hi"); const b = await z.generateAsync({type:"nodebuffer"}); const d = await unzipper.Open.buffer(b); return [d.files[0].path,(await d.files[0].buffer()).toString()]; };`,
  ],
  [
    "yauzl",
    `import yauzl from "yauzl"; import JSZip from "jszip"; export default async () => { const z = new JSZip(); z.file("a.txt","hi"); const b = await z.generateAsync({type:"nodebuffer"}); return await new Promise((res, rej) => yauzl.fromBuffer(b,{lazyEntries:true},(e,f)=>{ if(e) return rej(e); const names=[]; f.on("entry",(x)=>{names.push(x.fileName); f.readEntry();}); f.on("end",()=>res(names)); f.readEntry(); })); };`,
  ],
  ["lzma", `import lzma from "lzma"; export default () => lzma.decompress(lzma.compress("hello hello hello", 1));`],
  [
    "snappyjs",
    `import s from "snappyjs"; export default () => Buffer.from(s.uncompress(s.compress(Buffer.from("aaaaaaaa")))).toString();`,
  ],
  ["qr-image", `import qr from "qr-image"; export default () => qr.imageSync("hi",{type:"svg"}).length;`],
  [
    "jsbarcode",
    `import JsBarcode from "jsbarcode"; export default () => { const d = {}; JsBarcode(d,"123",{}); return d.encodings.length; };`,
  ],
  ["satori", `import satori from "satori"; export default () => typeof satori;`],
  ["@resvg/resvg-wasm", `import * as r from "@resvg/resvg-wasm"; export default () => typeof r.Resvg;`],
  ["svg-captcha", `import c from "svg-captcha"; export default () => c("ab",{noise:0}).length > 100;`],
  ["canvg", `import { Canvg } from "canvg"; export default () => typeof Canvg;`],
  [
    "rss",
    `import RSS from "rss"; export default () => new RSS({title:"t",feed_url:"f",site_url:"s",pubDate:new Date(0)}).xml().includes("<title>");`,
  ],
  ["node-cron", `import cron from "node-cron"; export default () => cron.validate("* * * * *");`],
  ["node-schedule", `import s from "node-schedule"; export default () => typeof s.scheduleJob;`],
  ["bull", `import B from "bull"; export default () => typeof B;`],
  ["amqplib", `import a from "amqplib"; export default () => typeof a.connect;`],
  ["kafkajs", `import { Kafka } from "kafkajs"; export default () => typeof new Kafka({brokers:["a:1"]}).producer;`],
  [
    "nats.ws",
    `import { StringCodec } from "nats.ws"; export default () => StringCodec().decode(StringCodec().encode("a"));`,
  ],
  ["sequelize", `import { DataTypes } from "sequelize"; export default () => DataTypes.STRING.key;`],
  [
    "typeorm",
    `import "reflect-metadata"; import { DataSource } from "typeorm"; export default () => typeof DataSource;`,
  ],
  [
    "@neondatabase/serverless",
    `import { neon } from "@neondatabase/serverless"; export default () => typeof neon("postgres://a:b@c.example/d");`,
  ],
  [
    "@planetscale/database",
    `import { connect } from "@planetscale/database"; export default () => typeof connect({host:"h",username:"u",password:"p"}).execute;`,
  ],
  [
    "@libsql/client",
    `import { createClient } from "@libsql/client/web"; export default () => typeof createClient({url:"https://a.example"}).execute;`,
  ],
  [
    "@upstash/redis",
    `import { Redis } from "@upstash/redis"; export default () => typeof new Redis({url:"https://a.example",token:"t"}).get;`,
  ],
  [
    "@clickhouse/client",
    `import { createClient } from "@clickhouse/client"; export default () => typeof createClient().query;`,
  ],
  [
    "@influxdata/influxdb-client",
    `import { Point } from "@influxdata/influxdb-client"; export default () => new Point("m").floatField("a",1).timestamp(1).toString();`,
  ],
  [
    "@google-cloud/bigquery",
    `import { BigQuery } from "@google-cloud/bigquery"; export default () => typeof new BigQuery({projectId:"p"}).query;`,
  ],
  ["@google-cloud/pubsub", `import { PubSub } from "@google-cloud/pubsub"; export default () => typeof PubSub;`],
  [
    "@google-cloud/translate",
    `import { v2 } from "@google-cloud/translate"; export default () => typeof new v2.Translate({key:"k"}).translate;`,
  ],
  [
    "deepl-node",
    `import { Translator } from "deepl-node"; export default () => typeof new Translator("k").translateText;`,
  ],
  ["@deepgram/sdk", `import * as d from "@deepgram/sdk"; export default () => Object.keys(d).length > 1;`],
  [
    "elevenlabs",
    `import { ElevenLabsClient } from "elevenlabs"; export default () => typeof new ElevenLabsClient({apiKey:"k"}).generate;`,
  ],
  ["@tavily/core", `import { tavily } from "@tavily/core"; export default () => typeof tavily({apiKey:"k"}).search;`],
  ["exa-js", `import Exa from "exa-js"; export default () => typeof new Exa("k").search;`],
  [
    "@mendable/firecrawl-js",
    `import F from "@mendable/firecrawl-js"; export default () => typeof new F({apiKey:"k"}).scrapeUrl;`,
  ],
  [
    "@qdrant/js-client-rest",
    `import { QdrantClient } from "@qdrant/js-client-rest"; export default () => typeof new QdrantClient({url:"https://a.example"}).search;`,
  ],
  ["weaviate-client", `import weaviate from "weaviate-client"; export default () => typeof weaviate.connectToCustom;`],
  [
    "chromadb",
    `import { ChromaClient } from "chromadb"; export default () => typeof new ChromaClient().listCollections;`,
  ],
  [
    "typesense",
    `import T from "typesense"; export default () => typeof new T.Client({nodes:[{host:"a",port:443,protocol:"https"}],apiKey:"k"}).collections;`,
  ],
  ["@octokit/graphql", `import { graphql } from "@octokit/graphql"; export default () => typeof graphql;`],
  [
    "@gitbeaker/rest",
    `import { Gitlab } from "@gitbeaker/rest"; export default () => typeof new Gitlab({token:"t"}).Projects.all;`,
  ],
  [
    "mailgun.js",
    `import Mailgun from "mailgun.js"; import FormData from "form-data"; export default () => typeof new Mailgun(FormData).client({username:"api",key:"k"}).messages.create;`,
  ],
  ["postmark", `import { ServerClient } from "postmark"; export default () => typeof new ServerClient("k").sendEmail;`],
  [
    "@vonage/server-sdk",
    `import { Vonage } from "@vonage/server-sdk"; export default () => typeof new Vonage({apiKey:"k",apiSecret:"s"}).sms;`,
  ],
  [
    "spotify-web-api-node",
    `import S from "spotify-web-api-node"; export default () => new S({clientId:"a",redirectUri:"https://b.example"}).createAuthorizeURL(["x"],"s");`,
  ],
  ["snoowrap", `import s from "snoowrap"; export default () => typeof s;`],
  [
    "twitter-api-v2",
    `import { TwitterApi } from "twitter-api-v2"; export default () => typeof new TwitterApi("t").v2.me;`,
  ],
  ["yahoo-finance2", `import Y from "yahoo-finance2"; export default () => typeof Y;`],
  [
    "technicalindicators",
    `import { SMA } from "technicalindicators"; export default () => SMA.calculate({period:2,values:[1,2,3]});`,
  ],
  ["ccxt", `import ccxt from "ccxt"; export default () => typeof new ccxt.binance().fetchTicker;`],
  [
    "googleapis",
    `import { google } from "googleapis"; export default () => typeof google.sheets({version:"v4"}).spreadsheets.get;`,
  ],
  ["wikipedia", `import w from "wikipedia"; export default () => typeof w.page;`],
  [
    "cheerio-select",
    `import { select } from "cheerio-select"; import { parseDocument } from "htmlparser2"; export default () => select("p", parseDocument("<p>a</p>")).length;`,
  ],
  [
    "marked-terminal",
    `import { markedTerminal } from "marked-terminal"; import { marked } from "marked"; export default () => { marked.use(markedTerminal()); return typeof marked("# hi"); };`,
  ],
  ["remark", `import { remark } from "remark"; export default async () => String(await remark().process("*  hi"));`],
  [
    "@mdx-js/mdx",
    `import { compile } from "@mdx-js/mdx"; export default async () => String(await compile("# hi {1+1}")).length > 100;`,
  ],
  ["@citation-js/core", `import { Cite } from "@citation-js/core"; export default () => typeof Cite;`],
  ["epub-gen-memory", `import e from "epub-gen-memory"; export default () => typeof e;`],
  ["officeparser", `import * as o from "officeparser"; export default () => typeof o;`],
  ["word-extractor", `import W from "word-extractor"; export default () => typeof new W().extract;`],
  ["pdfjs", `import pdf from "pdfjs"; export default () => typeof pdf.Document;`],
  [
    "easy-template-x",
    `import { TemplateHandler } from "easy-template-x"; export default () => typeof new TemplateHandler().process;`,
  ],
  [
    "jsforce",
    `import jsforce from "jsforce"; export default () => typeof new jsforce.Connection({loginUrl:"https://a.example"}).query;`,
  ],
  ["node-quickbooks", `import Q from "node-quickbooks"; export default () => typeof Q;`],
  ["xero-node", `import { XeroClient } from "xero-node"; export default () => typeof XeroClient;`],
  [
    "@paypal/paypal-server-sdk",
    `import { Client } from "@paypal/paypal-server-sdk"; export default () => typeof Client;`,
  ],
  [
    "square",
    `import { SquareClient } from "square"; export default () => typeof new SquareClient({token:"t"}).payments;`,
  ],
  ["@workos-inc/node", `import { WorkOS } from "@workos-inc/node"; export default () => typeof new WorkOS("k").users;`],
  [
    "@clerk/backend",
    `import { createClerkClient } from "@clerk/backend"; export default () => typeof createClerkClient({secretKey:"k"}).users.getUser;`,
  ],
  ["auth0", `import { ManagementClient } from "auth0"; export default () => typeof ManagementClient;`],
  [
    "@launchdarkly/node-server-sdk",
    `import * as l from "@launchdarkly/node-server-sdk"; export default () => typeof l.init;`,
  ],
  ["statsig-node", `import s from "statsig-node"; export default () => typeof s.initialize;`],
  ["dd-trace", `import t from "dd-trace"; export default () => typeof t.init;`],
  [
    "@opentelemetry/api",
    `import { trace } from "@opentelemetry/api"; export default () => typeof trace.getTracer("a").startSpan;`,
  ],
  [
    "prom-client",
    `import c from "prom-client"; export default async () => { const r = new c.Registry(); new c.Counter({name:"a",help:"b",registers:[r]}).inc(); return await r.metrics(); };`,
  ],
  ["bunyan", `import b from "bunyan"; export default () => typeof b.createLogger({name:"a"}).info;`],
  ["log4js", `import l from "log4js"; export default () => typeof l.getLogger("a").info;`],
  ["config", `import c from "config"; export default () => typeof c.get;`],
  ["convict", `import convict from "convict"; export default () => convict({a:{format:Number,default:1}}).get("a");`],
  ["nconf", `import n from "nconf"; export default () => { n.defaults({a:1}); return n.get("a"); };`],
  [
    "joi-to-json",
    `import j from "joi-to-json"; import Joi from "joi"; export default () => j(Joi.object({a:Joi.string()})).type;`,
  ],
  [
    "fluent-json-schema",
    `import S from "fluent-json-schema"; export default () => S.object().prop("a",S.string()).valueOf().type;`,
  ],
  ["@hapi/boom", `import B from "@hapi/boom"; export default () => B.notFound("x").output.statusCode;`],
  ["micro", `import m from "micro"; export default () => typeof m;`],
  ["polka", `import p from "polka"; export default () => typeof p().get;`],
  ["restify-errors", `import e from "restify-errors"; export default () => new e.NotFoundError("a").statusCode;`],
  ["passport", `import p from "passport"; export default () => typeof p.use;`],
  [
    "iron-session",
    `import { sealData, unsealData } from "iron-session"; export default async () => await unsealData(await sealData({a:1},{password:"x".repeat(32)}),{password:"x".repeat(32)});`,
  ],
  ["cookie-signature", `import c from "cookie-signature"; export default () => c.sign("a","b");`],
  ["csrf", `import T from "csrf"; export default () => typeof new T().create("a");`],
  ["helmet", `import h from "helmet"; export default () => typeof h();`],
  [
    "bcrypt-ts",
    `import { hashSync, compareSync } from "bcrypt-ts"; export default () => compareSync("a", hashSync("a", 4));`,
  ],
  [
    "scrypt-js",
    `import s from "scrypt-js"; export default () => Buffer.from(s.syncScrypt(Buffer.from("a"),Buffer.from("b"),16,1,1,16)).toString("hex");`,
  ],
  [
    "libsodium-wrappers",
    `import s from "libsodium-wrappers"; export default async () => { await s.ready; return s.to_hex(s.crypto_generichash(16,"a")); };`,
    ["webAssembly"],
  ],
  [
    "node-rsa",
    `import R from "node-rsa"; export default () => { const k = new R({b:512}); return k.decrypt(k.encrypt("hi"),"utf8"); };`,
  ],
  ["asn1.js", `import a from "asn1.js"; export default () => typeof a.define;`],
  ["pkijs", `import { Certificate } from "pkijs"; export default () => typeof new Certificate().toSchema;`],
  [
    "@peculiar/x509",
    `import "reflect-metadata"; import { X509CertificateGenerator } from "@peculiar/x509"; export default () => typeof X509CertificateGenerator.create;`,
  ],
  ["xml-crypto", `import { SignedXml } from "xml-crypto"; export default () => typeof new SignedXml().addReference;`],
  ["samlify", `import * as s from "samlify"; export default () => typeof s.ServiceProvider;`],
  [
    "xmldoc",
    `import { XmlDocument } from "xmldoc"; export default () => new XmlDocument("<a><b>1</b></a>").childNamed("b").val;`,
  ],
  ["cson-parser", `import C from "cson-parser"; export default () => C.parse("a: 1");`],
  ["coffeescript", `import C from "coffeescript"; export default () => C.eval("1+1");`],
  ["stylus", `import s from "stylus"; export default () => s.render("a\\n  color red");`],
  [
    "autoprefixer",
    `import a from "autoprefixer"; import postcss from "postcss"; export default async () => (await postcss([a]).process("a{user-select:none}",{from:undefined})).css.length > 5;`,
  ],
  [
    "cssnano",
    `import c from "cssnano"; import postcss from "postcss"; export default async () => (await postcss([c]).process("a { color : red }",{from:undefined})).css;`,
  ],
  [
    "eslint",
    `import { Linter } from "eslint"; export default () => new Linter().verify("var a", [{rules:{"no-var":"error"}}]).length;`,
  ],
  ["jscodeshift", `import j from "jscodeshift"; export default () => j("const a=1").find(j.Identifier).length;`],
  [
    "ts-morph",
    `import { Project } from "ts-morph"; export default () => new Project({useInMemoryFileSystem:true}).createSourceFile("a.ts","class A{}").getClasses().length;`,
  ],
  [
    "quicktype-core",
    `import { quicktype, InputData, jsonInputForTargetLanguage } from "quicktype-core"; export default async () => { const i = jsonInputForTargetLanguage("typescript"); await i.addSource({name:"A",samples:['{"a":1}']}); const d = new InputData(); d.addInput(i); return (await quicktype({inputData:d,lang:"typescript"})).lines.length > 5; };`,
  ],
  [
    "json-schema-to-typescript",
    `import { compile } from "json-schema-to-typescript"; export default async () => await compile({title:"A",type:"object",properties:{a:{type:"string"}},additionalProperties:false},"A",{bannerComment:""});`,
  ],
  ["@readme/openapi-parser", `import * as p from "@readme/openapi-parser"; export default () => typeof p.validate;`],
  [
    "@apidevtools/swagger-parser",
    `import S from "@apidevtools/swagger-parser"; export default () => typeof S.validate;`,
  ],
  ["string-template", `import s from "string-template"; export default () => s("a {b}",{b:1});`],
  ["squirrelly", `import * as S from "squirrelly"; export default () => S.render("{{it.a}}",{a:1});`],
  [
    "edge.js",
    `import { Edge } from "edge.js"; export default async () => await Edge.create().renderRaw("{{ a }}",{a:1});`,
  ],
  ["twig", `import T from "twig"; export default () => T.twig({data:"{{ a }}"}).render({a:1});`],
  ["art-template", `import t from "art-template"; export default () => t.render("{{a}}",{a:1});`],
  ["number-to-words", `import n from "number-to-words"; export default () => n.toWords(12);`],
  ["roman-numerals", `import r from "roman-numerals"; export default () => r.toRoman(9);`],
  ["written-number", `import w from "written-number"; export default () => w(5);`],
  ["to-words", `import { ToWords } from "to-words"; export default () => new ToWords().convert(5);`],
  ["pinyin-pro", `import { pinyin } from "pinyin-pro"; export default () => pinyin("你好");`],
  ["kuroshiro", `import K from "kuroshiro"; export default () => typeof K;`],
  [
    "snowball-stemmers",
    `import s from "snowball-stemmers"; export default () => s.newStemmer("english").stem("running");`,
  ],
  [
    "vader-sentiment",
    `import v from "vader-sentiment"; export default () => v.SentimentIntensityAnalyzer.polarity_scores("good").compound;`,
  ],
  ["ml-naivebayes", `import { GaussianNB } from "ml-naivebayes"; export default () => typeof GaussianNB;`],
  ["pos", `import p from "pos"; export default () => new p.Tagger().tag(["a","dog"]);`],
  [
    "@tensorflow/tfjs",
    `import * as tf from "@tensorflow/tfjs"; export default async () => { await tf.setBackend("cpu"); return Array.from(tf.add([1,2],[3,4]).dataSync()); };`,
  ],
  ["onnxruntime-web", `import * as o from "onnxruntime-web"; export default () => typeof o.InferenceSession;`],
  ["gpu.js", `import { GPU } from "gpu.js"; export default () => typeof GPU;`],
  ["three", `import * as T from "three"; export default () => new T.Vector3(1,2,3).length();`],
  [
    "gl-matrix",
    `import { vec3 } from "gl-matrix"; export default () => Array.from(vec3.add(vec3.create(),[1,2,3],[1,1,1]));`,
  ],
  ["paper", `import p from "paper/dist/paper-core.js"; export default () => typeof p;`],
  ["roughjs", `import r from "roughjs"; export default () => typeof r.generator().rectangle;`],
  ["@svgdotjs/svg.js", `import { SVG } from "@svgdotjs/svg.js"; export default () => typeof SVG;`],
  ["svg-path-parser", `import p from "svg-path-parser"; export default () => p.parseSVG("M0 0L1 1").length;`],
  ["rollup", `import { rollup } from "rollup"; export default () => typeof rollup;`],
  ["esbuild-wasm", `import * as e from "esbuild-wasm"; export default () => e.version.length > 3;`],
  [
    "quickjs-emscripten",
    `import { getQuickJS } from "quickjs-emscripten"; export default async () => { const q = await getQuickJS(); return q.evalCode("1+1").value !== undefined; };`,
    ["webAssembly"],
  ],
  [
    "jsonld",
    `import j from "jsonld"; export default async () => await j.expand({"@context":{"n":"http://x.example/n"},"n":"a"});`,
  ],
  ["n3", `import { Parser } from "n3"; export default () => new Parser().parse("<a> <b> <c>.").length;`],
  [
    "rdflib",
    `import { graph, parse } from "rdflib"; export default () => { const g = graph(); parse("<http://a/a> <http://a/b> <http://a/c>.", g, "http://a/", "text/turtle"); return g.statements.length; };`,
  ],
  [
    "open-graph-scraper",
    `import o from "open-graph-scraper"; export default async () => (await o({html:"<html><head><title>a</title></head></html>"})).result.ogTitle;`,
  ],
  [
    "robots-parser",
    `import r from "robots-parser"; export default () => r("https://a.example/robots.txt","User-agent: *\\nDisallow: /x").isAllowed("https://a.example/x");`,
  ],
  ["sitemapper", `import S from "sitemapper"; export default () => typeof new S({}).fetch;`],
  ["rss-to-json", `import * as r from "rss-to-json"; export default () => typeof r.parse;`],
  [
    "youtube-transcript",
    `import { YoutubeTranscript } from "youtube-transcript"; export default () => typeof YoutubeTranscript.fetchTranscript;`,
  ],
  [
    "@distube/ytdl-core",
    `import y from "@distube/ytdl-core"; export default () => y.getVideoID("https://www.youtube.com/watch?v=dQw4w9WgXcQ");`,
  ],
  ["ical-expander", `import I from "ical-expander"; export default () => typeof I;`],
  ["tsdav", `import * as t from "tsdav"; export default () => typeof t.createDAVClient;`],
  [
    "webdav",
    `import { createClient } from "webdav"; export default () => typeof createClient("https://a.example").getDirectoryContents;`,
  ],
  ["basic-ftp", `import { Client } from "basic-ftp"; export default () => typeof Client;`],
  ["ssh2", `import s from "ssh2"; export default () => typeof s.Client;`],
  ["imapflow", `import { ImapFlow } from "imapflow"; export default () => typeof ImapFlow;`],
  ["libmime", `import l from "libmime"; export default () => l.encodeWord("äö");`],
  ["eml-parser", `import E from "eml-parser"; export default () => typeof E;`],
  [
    "postal-mime",
    `import P from "postal-mime"; export default async () => (await P.parse("Subject: a\\n\\nb")).subject;`,
  ],
  [
    "vcf",
    `import V from "vcf"; export default () => new V().parse("BEGIN:VCARD\\r\\nVERSION:4.0\\r\\nFN:A\\r\\nEND:VCARD").get("fn").valueOf();`,
  ],
  ["node-vibrant", `import * as v from "node-vibrant/node"; export default () => typeof v.Vibrant;`],
  ["heic-decode", `import h from "heic-decode"; export default () => typeof h;`, ["webAssembly"]],
  ["utif", `import U from "utif"; export default () => typeof U.decode;`],
  ["omggif", `import { GifWriter } from "omggif"; export default () => typeof GifWriter;`],
  [
    "wavefile",
    `import w from "wavefile"; export default () => { const f = new w.WaveFile(); f.fromScratch(1,8000,"16",[0,1]); return f.toBuffer().length; };`,
  ],
  ["@breezystack/lamejs", `import l from "@breezystack/lamejs"; export default () => typeof l.Mp3Encoder;`],
  ["midi-file", `import { parseMidi } from "midi-file"; export default () => typeof parseMidi;`],
  ["mp4box", `import * as M from "mp4box"; export default () => typeof M.createFile;`],
  ["@ffmpeg/ffmpeg", `import { FFmpeg } from "@ffmpeg/ffmpeg"; export default () => typeof FFmpeg;`],
  ["tesseract.js", `import T from "tesseract.js"; export default () => typeof T.createWorker;`],
  ["neverthrow", `import { ok } from "neverthrow"; export default () => ok(1).map((x)=>x+1)._unsafeUnwrap();`],
  ["purify-ts", `import { Maybe } from "purify-ts"; export default () => Maybe.of(1).map((x)=>x+1).extract();`],
  ["sanctuary", `import S from "sanctuary"; export default () => S.add(1)(2);`],
  [
    "most",
    `import * as m from "most"; export default async () => { const o=[]; await m.from([1,2]).observe((x)=>o.push(x)); return o; };`,
  ],
  ["baconjs", `import * as B from "baconjs"; export default () => new Promise((r)=>B.once(1).onValue(r));`],
  ["highland", `import h from "highland"; export default () => new Promise((r)=>h([1,2]).map((x)=>x*2).toArray(r));`],
  ["ix", `import { from } from "ix/iterable"; export default () => [...from([1,2])];`],
  ["p-debounce", `import d from "p-debounce"; export default async () => await d(async (x)=>x,1)(1);`],
  ["workerpool", `import w from "workerpool"; export default () => typeof w.pool;`],
  ["piscina", `import { Piscina } from "piscina"; export default () => typeof Piscina;`],
  ["threads", `import * as t from "threads"; export default () => typeof t.spawn;`],
  ["comlink", `import * as c from "comlink"; export default () => typeof c.wrap;`],
  ["execa", `import { execa } from "execa"; export default () => typeof execa;`],
  ["shelljs", `import s from "shelljs"; export default () => typeof s.ls;`],
  ["zx", `import { $ } from "zx"; export default () => typeof $;`],
  ["globby", `import { globbySync } from "globby"; export default () => typeof globbySync;`],
  ["chokidar", `import c from "chokidar"; export default () => typeof c.watch;`],
  ["tmp", `import t from "tmp"; export default () => typeof t.fileSync;`],
  ["rimraf", `import { rimraf } from "rimraf"; export default () => typeof rimraf;`],
  [
    "memfs",
    `import { Volume } from "memfs"; export default () => { const v = Volume.fromJSON({"/a":"hi"}); return v.readFileSync("/a","utf8"); };`,
  ],
  ["inquirer", `import i from "inquirer"; export default () => typeof i.prompt;`],
  ["ora", `import o from "ora"; export default () => typeof o("a").start;`],
  ["boxen", `import b from "boxen"; export default () => b("a");`],
  ["cli-progress", `import c from "cli-progress"; export default () => typeof c.SingleBar;`],
  ["table", `import { table } from "table"; export default () => table([["a","b"]]);`],
  ["text-table", `import t from "text-table"; export default () => t([["a","b"]]);`],
  ["columnify", `import c from "columnify"; export default () => c([{a:1}]);`],
  ["asciichart", `import a from "asciichart"; export default () => a.plot([1,2,3],{height:3});`],
  [
    "@octokit/core",
    `import { Octokit } from "@octokit/core"; export default async () => { const seen = []; const o = new Octokit({ auth: "t", request: { fetch: async (url, init) => { seen.push([String(url), init.method, init.headers.authorization, init.body]); return new Response(JSON.stringify({ id: 7 }), { status: 201, headers: { "content-type": "application/json" } }); } } }); const r = await o.request("POST /repos/{owner}/{repo}/issues", { owner: "a", repo: "b c", title: "t" }); const e = await new Octokit({ request: { fetch: async () => new Response('{"message":"no"}', { status: 404, headers: { "content-type": "application/json" } }) } }).request("GET /x").catch((x) => [x.name, x.status, x.message]); return [r.status, r.data, seen, e]; };`,
  ],
  [
    "@octokit/auth-app",
    `import { createAppAuth } from "@octokit/auth-app"; import { generateKeyPairSync } from "node:crypto"; export default async () => { const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048, privateKeyEncoding: { type: "pkcs1", format: "pem" }, publicKeyEncoding: { type: "spki", format: "pem" } }); const auth = createAppAuth({ appId: 1, privateKey }); const a = await auth({ type: "app" }); const [h, p] = a.token.split(".").map((x) => Buffer.from(x, "base64url").toString()); return [a.type, JSON.parse(h).alg, JSON.parse(p).iss]; };`,
  ],
  [
    "@octokit/plugin-paginate-rest",
    `import { paginateRest } from "@octokit/plugin-paginate-rest"; import { Octokit } from "@octokit/core"; export default async () => { const My = Octokit.plugin(paginateRest); let n = 0; const o = new My({ request: { fetch: async (url) => { n += 1; return new Response(JSON.stringify([{ n }]), { headers: { "content-type": "application/json", ...(n < 3 ? { link: '<https://api.github.com/orgs/x/repos?page=' + (n + 1) + '>; rel="next"' } : {}) } }); } } }); return o.paginate("GET /orgs/{org}/repos", { org: "x" }); };`,
  ],
  [
    "@aws-sdk/client-lambda",
    `import { LambdaClient, InvokeCommand } from "@aws-sdk/client-lambda"; export default async () => { const seen = []; const c = new LambdaClient({ region: "eu-west-1", credentials: { accessKeyId: "a", secretAccessKey: "b" }, requestHandler: { handle: async (r) => { seen.push([r.method, r.hostname, r.path, r.headers["x-amz-invocation-type"], Object.keys(r.headers).includes("authorization")]); return { response: { statusCode: 200, headers: {}, body: new Response('{"ok":1}').body } }; } } }); const r = await c.send(new InvokeCommand({ FunctionName: "f", Payload: JSON.stringify({ a: 1 }), InvocationType: "RequestResponse" })); return [r.StatusCode, r.Payload && new TextDecoder().decode(r.Payload), seen]; };`,
  ],
  [
    "@aws-sdk/client-sesv2",
    `import { SESv2Client, SendEmailCommand } from "@aws-sdk/client-sesv2"; export default async () => { const c = new SESv2Client({ region: "us-east-1", maxAttempts: 1, credentials: { accessKeyId: "a", secretAccessKey: "b" } }); let body; c.middlewareStack.add((next) => async (a) => { body = a.request.body; return { response: {}, output: { MessageId: "m1", $metadata: {} } }; }, { step: "finalizeRequest", priority: "low" }); const r = await c.send(new SendEmailCommand({ FromEmailAddress: "a@b.c", Destination: { ToAddresses: ["d@e.f"] }, Content: { Simple: { Subject: { Data: "s" }, Body: { Text: { Data: "t" } } } } })); return [r.MessageId, JSON.parse(Buffer.from(body).toString())]; };`,
  ],
  [
    "@aws-sdk/s3-request-presigner",
    `import { getSignedUrl } from "@aws-sdk/s3-request-presigner"; import { S3Client, GetObjectCommand } from "@aws-sdk/client-s3"; export default async () => { const c = new S3Client({ region: "us-east-1", credentials: { accessKeyId: "AKID", secretAccessKey: "SECRET" } }); const u = new URL(await getSignedUrl(c, new GetObjectCommand({ Bucket: "b", Key: "k/ä.txt" }), { expiresIn: 60, signingDate: new Date(0) })); u.searchParams.delete("x-id"); return [u.host, u.pathname, u.searchParams.get("X-Amz-Signature").length, u.searchParams.get("X-Amz-Expires"), u.searchParams.get("X-Amz-Date")]; };`,
  ],
  [
    "@azure/data-tables",
    `import { TableClient, AzureNamedKeyCredential, odata } from "@azure/data-tables"; export default async () => { const seen = []; const c = new TableClient("https://acc.table.core.windows.net", "t", new AzureNamedKeyCredential("acc", Buffer.from("key").toString("base64")), { httpClient: { sendRequest: async (r) => { seen.push([r.method, r.url, r.headers.get("authorization")?.slice(0, 18)]); const { createHttpHeaders } = await import("@azure/core-rest-pipeline"); return { request: r, status: 200, headers: createHttpHeaders({ "content-type": "application/json" }), bodyAsText: JSON.stringify({ PartitionKey: "p", RowKey: "r", n: 5 }) }; } } }); const e = await c.getEntity("p", "r"); return [e.n, seen, odata\`a eq \${"o'x"}\`]; };`,
  ],
  [
    "@google-cloud/firestore",
    `import { Timestamp, FieldValue, Firestore, GeoPoint, FieldPath } from "@google-cloud/firestore"; export default () => { const f = new Firestore({ projectId: "p" }); return [Timestamp.fromMillis(1500).toDate().toISOString(), f.doc("a/b").path, f.collection("a").where("x", ">", 1).limit(2).isEqual(f.collection("a").where("x", ">", 1).limit(2)), FieldValue.increment(1).isEqual(FieldValue.increment(1)), new GeoPoint(1, 2).latitude, new FieldPath("a", "b").isEqual(new FieldPath("a", "b"))]; };`,
  ],
  [
    "@langchain/openai",
    `import { ChatOpenAI } from "@langchain/openai"; import { HumanMessage } from "@langchain/core/messages"; export default async () => { const bodies = []; const m = new ChatOpenAI({ apiKey: "k", model: "gpt-4o", maxRetries: 0, configuration: { fetch: async (u, i) => { bodies.push(JSON.parse(i.body).messages); return new Response(JSON.stringify({ id: "1", object: "chat.completion", choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hey", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"a":1}' } }] } }], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }), { headers: { "content-type": "application/json" } }); } } }); const r = await m.invoke([new HumanMessage("hi")]); return [r.content, r.tool_calls, r.usage_metadata?.total_tokens, bodies]; };`,
  ],
  [
    "@langchain/textsplitters",
    `import { RecursiveCharacterTextSplitter, TokenTextSplitter } from "@langchain/textsplitters"; export default async () => [await new RecursiveCharacterTextSplitter({ chunkSize: 20, chunkOverlap: 5 }).splitText("The quick brown fox jumps over the lazy dog. And again."), (await RecursiveCharacterTextSplitter.fromLanguage("markdown", { chunkSize: 30, chunkOverlap: 0 }).createDocuments(["# T\\n\\nabc\\n\\n## U\\n\\ndef ghi jkl mno pqr"])).map((d) => [d.pageContent, d.metadata.loc.lines])];`,
  ],
  [
    "@langchain/langgraph",
    `import { StateGraph, Annotation, START, END, MemorySaver } from "@langchain/langgraph"; export default async () => { const S = Annotation.Root({ n: Annotation({ reducer: (a, b) => a + b, default: () => 0 }), log: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) }); const g = new StateGraph(S).addNode("a", async () => ({ n: 1, log: ["a"] })).addNode("b", () => ({ n: 10, log: ["b"] })).addEdge(START, "a").addConditionalEdges("a", (s) => (s.n < 3 ? "a" : "b")).addEdge("b", END).compile({ checkpointer: new MemorySaver() }); const r = await g.invoke({ n: 0 }, { configurable: { thread_id: "1" } }); const steps = []; for await (const s of await g.stream({ n: 0 }, { configurable: { thread_id: "2" }, streamMode: "updates" })) steps.push(Object.keys(s)[0]); return [r, steps]; };`,
  ],
  [
    "ollama",
    `import { Ollama } from "ollama"; export default async () => { const o = new Ollama({ host: "http://h:1", fetch: async (u, i) => { const b = JSON.parse(i.body); return b.stream ? new Response('{"message":{"content":"a"},"done":false}\\n{"message":{"content":"b"},"done":true}\\n') : new Response(JSON.stringify({ message: { content: "x" }, model: b.model })); } }); const r = await o.chat({ model: "m", messages: [{ role: "user", content: "q" }] }); let t = ""; for await (const p of await o.chat({ model: "m", messages: [], stream: true })) t += p.message.content; return [r, t]; };`,
  ],
  [
    "cloudflare",
    `import Cloudflare from "cloudflare"; export default async () => { const c = new Cloudflare({ apiToken: "t", maxRetries: 0, fetch: async (u) => new Response(JSON.stringify({ success: true, result: [{ id: "z1", name: "a.com" }], result_info: { page: 1, per_page: 20, total_count: 1 } }), { headers: { "content-type": "application/json" } }) }); const out = []; for await (const z of c.zones.list()) { out.push(z.name); break; } return out; };`,
  ],
  [
    "razorpay",
    `import Razorpay from "razorpay"; import { createHmac } from "node:crypto"; export default () => { const body = '{"a":1}'; const sig = createHmac("sha256", "s").update(body).digest("hex"); return [Razorpay.validateWebhookSignature(body, sig, "s"), Razorpay.validateWebhookSignature(body, sig.replace(/./, (x) => x === "0" ? "1" : "0"), "s"), typeof new Razorpay({ key_id: "a", key_secret: "b" }).orders.create]; };`,
  ],
  [
    "braintree",
    `import braintree from "braintree"; export default () => { const g = new braintree.BraintreeGateway({ environment: braintree.Environment.Sandbox, merchantId: "m", publicKey: "p", privateKey: "k" }); const s = g.webhookTesting.sampleNotification(braintree.WebhookNotification.Kind.SubscriptionWentPastDue, "id1"); return g.webhookNotification.parse(s.bt_signature, s.bt_payload).then((n) => [n.kind, n.subscription.id]); };`,
  ],
  [
    "dropbox",
    `import { Dropbox, DropboxAuth } from "dropbox"; export default async () => { const seen = []; const d = new Dropbox({ accessToken: "t", fetch: async (u, i) => { seen.push([u, i.method, i.headers.Authorization]); return new Response('{"entries":[{"name":"a"}]}', { headers: { "content-type": "application/json" } }); } }); const r = await d.filesListFolder({ path: "" }); const u = await new DropboxAuth({ clientId: "c" }).getAuthenticationUrl("http://x/", "st", "code"); return [r.result, seen, u]; };`,
  ],
  [
    "web-push",
    `import webpush from "web-push"; import crypto from "node:crypto"; export default () => { const k = webpush.generateVAPIDKeys(); const ecdh = crypto.createECDH("prime256v1"); ecdh.generateKeys(); const d = webpush.generateRequestDetails({ endpoint: "https://push.example.com/x", keys: { p256dh: ecdh.getPublicKey("base64url"), auth: Buffer.alloc(16, 1).toString("base64url") } }, "payload", { vapidDetails: { subject: "mailto:a@b.c", publicKey: k.publicKey, privateKey: k.privateKey }, TTL: 5 }); return [k.publicKey.length, d.method, d.headers.TTL, d.headers["Content-Encoding"], d.body.length, d.headers.Authorization.slice(0, 8)]; };`,
  ],
  [
    "meilisearch",
    `import * as ms from "meilisearch"; const M = ms.Meilisearch ?? ms.MeiliSearch; export default async () => { const c = new M({ host: "http://h", apiKey: "k", httpClient: async (u, i) => ({ hits: [{ id: 1 }], u: String(u), m: i.method, b: i.body }) }); return c.index("movies").search("bat", { limit: 1 }); };`,
  ],
  [
    "@opensearch-project/opensearch",
    `import { Client, Connection } from "@opensearch-project/opensearch"; import { Readable } from "node:stream"; export default async () => { const seen = []; class C extends Connection { request(p, cb) { seen.push([p.method, p.path, p.body]); const r = Readable.from(['{"hits":{"total":1}}']); r.statusCode = 200; r.headers = { "content-type": "application/json" }; cb(null, r); return { abort() {} }; } } const c = new Client({ node: "http://h:9200", Connection: C }); const r = await c.search({ index: "i", body: { query: { match_all: {} } } }); return [r.body, seen]; };`,
  ],
  [
    "neo4j-driver",
    `import neo4j from "neo4j-driver"; export default () => [neo4j.int("9007199254740993").toString(), neo4j.isInt(neo4j.int(1)), neo4j.types.Date.fromStandardDate(new Date(Date.UTC(2020, 1, 3))).toString(), new neo4j.types.Duration(1, 2, 3, 4).toString(), neo4j.integer.toNumber(neo4j.int(5))];`,
  ],
  [
    "postgres",
    `import postgres from "postgres"; export default async () => { const sql = postgres("postgres://u:p@127.0.0.1:1/db", { max: 1, connect_timeout: 1 }); const e = await sql\`select 1\`.catch((x) => typeof x.message); await sql.end({ timeout: 0 }); return [e, typeof sql.unsafe]; };`,
  ],
  [
    "pg-promise",
    `import pgp from "pg-promise"; export default () => { const p = pgp(); return [p.as.format("select \${a}, $1:name, \${b:json}".replace("$1:name", "\${c:name}"), { a: "o'x", b: { q: 1 }, c: "tab le" }), p.helpers.insert([{ a: 1, b: "x" }, { a: 2, b: null }], ["a", "b"], "t"), p.helpers.update({ a: 1 }, null, "t") + " WHERE id=1"]; };`,
  ],
  [
    "mssql",
    `import sql from "mssql"; export default () => [sql.VarChar(10).length, sql.TYPES.Int === sql.Int, (() => { const t = new sql.Table("x"); t.columns.add("a", sql.Int, { nullable: true }); t.rows.add(1); return [t.columns.length, t.rows.length, t.declare()]; })()];`,
  ],
  [
    "grammy",
    `import { Bot, InlineKeyboard, webhookCallback } from "grammy"; export default async () => { const b = new Bot("1:t", { botInfo: { id: 1, is_bot: true, first_name: "b", username: "b" } }); const out = []; b.api.config.use(async (prev, method, payload) => { out.push([method, payload.text]); return { ok: true, result: { message_id: 1 } }; }); b.command("start", (c) => c.reply("hi " + c.match, { reply_markup: new InlineKeyboard().text("a", "b") })); b.hears(/x(\\d)/, (c) => c.reply("n" + c.match[1])); await b.handleUpdate({ update_id: 1, message: { message_id: 1, date: 0, chat: { id: 1, type: "private" }, from: { id: 2, is_bot: false, first_name: "u" }, text: "/start now", entities: [{ type: "bot_command", offset: 0, length: 6 }] } }); await b.handleUpdate({ update_id: 2, message: { message_id: 2, date: 0, chat: { id: 1, type: "private" }, text: "x5" } }); return out; };`,
  ],
  [
    "pusher",
    `import Pusher from "pusher"; export default () => { const p = new Pusher({ appId: "1", key: "k", secret: "s", cluster: "eu" }); return [p.authorizeChannel("123.456", "private-x"), p.webhook({ headers: { "x-pusher-key": "k", "x-pusher-signature": "z", "content-type": "application/json" }, rawBody: "{}" }).isValid()]; };`,
  ],
  [
    "objection",
    `import { Model } from "objection"; import knex from "knex"; export default () => { class P extends Model { static tableName = "p"; static jsonSchema = { type: "object", required: ["n"], properties: { n: { type: "string" } } }; } P.knex(knex({ client: "pg" })); const q = P.query().where("a", ">", 1).orderBy("b").toKnexQuery().toSQL(); let e; try { P.fromJson({}); } catch (x) { e = [x.name, x.data]; } return [q.sql, q.bindings, e, P.fromJson({ n: "q" }).n]; };`,
  ],
  [
    "sqlstring",
    `import s from "sqlstring"; export default () => [s.format("SELECT * FROM ?? WHERE a = ? AND b IN (?) AND d = ?", ["t.x", "o'x", [1, 2], new Date(0)], false, "Z"), s.escape({ a: 1, b: null }), s.escapeId("a\`b"), s.escape(Buffer.from("ab"))];`,
  ],
  [
    "pg-format",
    `import f from "pg-format"; export default () => [f("SELECT %I, %L, %s", "Col", "o'x\\\\", [1, 2]), f("INSERT INTO t (a,b) VALUES %L", [[1, "x"], [2, null]])];`,
  ],
  [
    "pgsql-ast-parser",
    `import { parse, toSql, astVisitor } from "pgsql-ast-parser"; export default () => { const [a] = parse("select a, count(*) from t join u on t.id = u.id where b > 1 group by a"); const tables = []; astVisitor(() => ({ tableRef: (t) => tables.push(t.name) })).statement(a); return [toSql.statement(a), tables]; };`,
  ],
  [
    "docx-templates",
    `import { createReport } from "docx-templates"; import JSZip from "jszip"; import { Document, Packer, Paragraph } from "docx"; export default async () => { const template = await Packer.toBuffer(new Document({ sections: [{ children: [new Paragraph("Hello +++name+++"), new Paragraph("+++FOR x IN items+++"), new Paragraph("- +++INS $x+++"), new Paragraph("+++END-FOR x+++")] }] })); const b = await createReport({ template, data: { name: "Ann", items: ["a", "b"] }, noSandbox: true }); const z = await JSZip.loadAsync(b); return (await z.file("word/document.xml").async("string")).match(/<w:t[^>]*>[^<]*/g).map((x) => x.replace(/<[^>]*>/, "")); };`,
  ],
  [
    "@asciidoctor/core",
    `import * as a from "@asciidoctor/core"; export default async () => { const out = await a.convert("= Doc\\n\\n== Sec\\n\\n* a\\n* *b*\\n\\n[source,js]\\n----\\nx\\n----\\n\\nNOTE: hi", { safe: "safe" }); return String(out); };`,
  ],
  [
    "saxes",
    `import { SaxesParser } from "saxes"; export default () => { const p = new SaxesParser({ xmlns: true, position: true }); const o = []; p.on("opentag", (t) => o.push([t.name, t.uri, Object.keys(t.attributes)])); p.on("text", (t) => o.push(t)); p.on("error", (e) => o.push(e.message)); p.write('<a xmlns="u" b="1">x &amp; <c/></d>').close(); return o; };`,
  ],
  [
    "ion-js",
    `import * as ion from "ion-js"; export default () => { const v = ion.load("{a: 1, b: [2.5, \\"x\\"], t: 2020-01-01T00:00:00Z, s: sym}"); return [v.get("a").numberValue(), ion.dumpText(v), ion.dumpBinary({ q: 1 }).length]; };`,
  ],
  [
    "multiformats",
    `import { CID } from "multiformats/cid"; import * as json from "multiformats/codecs/json"; import { sha256 } from "multiformats/hashes/sha2"; export default async () => { const c = CID.create(1, json.code, await sha256.digest(json.encode({ a: 1 }))); return [c.toString(), CID.parse(c.toString()).equals(c)]; };`,
  ],
  [
    "@ipld/dag-cbor",
    `import { encode, decode } from "@ipld/dag-cbor"; export default () => { const b = encode({ b: 1, a: [true, new Uint8Array([1, 2])] }); return [Buffer.from(b).toString("hex"), decode(b).b]; };`,
  ],
  [
    "flatbuffers",
    `import { Builder, ByteBuffer } from "flatbuffers"; export default () => { const b = new Builder(64); const s = b.createString("hello"); b.startObject(2); b.addFieldOffset(0, s, 0); b.addFieldInt32(1, 42, 0); b.finish(b.endObject()); const bb = new ByteBuffer(b.asUint8Array()); const root = bb.readInt32(bb.position()) + bb.position(); return [bb.__string(root + bb.__offset(root, 4)), bb.readInt32(root + bb.__offset(root, 6))]; };`,
  ],
  [
    "spacetime",
    `import s from "spacetime"; export default () => [s("2020-03-08T01:30:00", "America/New_York").add(1, "hour").format("iso"), s("June 5 2021").weekOfMonth?.(), s("2020-01-31", "UTC").add(1, "month").format("nice"), s("2020-01-01", "Europe/Berlin").goto("Asia/Tokyo").time()];`,
  ],
  [
    "temporal-polyfill",
    `import { Temporal } from "temporal-polyfill"; export default () => [Temporal.PlainDate.from("2020-02-28").add({ days: 2 }).toString(), Temporal.ZonedDateTime.from("2021-03-14T01:30[America/New_York]").add({ hours: 1 }).toString(), Temporal.Duration.from("P1DT2H").total("hours"), Temporal.PlainDate.from("2020-01-01").until("2021-03-04", { largestUnit: "month" }).toString()];`,
  ],
  [
    "runtypes",
    `import * as R from "runtypes"; const { Object: Obj, String: Str, Number: Num, Union, Literal } = R; export default () => { const T = Obj({ a: Str, b: Union(Num, Literal("x")) }); let e; try { T.check({ a: 1, b: "x" }); } catch (x) { e = [x.name, x.message]; } return [T.guard({ a: "q", b: 1 }), e]; };`,
  ],
  [
    "fastest-validator",
    `import V from "fastest-validator"; export default () => { const c = new V().compile({ id: "number|positive|integer", e: { type: "email" }, t: { type: "array", items: "string", min: 1 }, $$strict: true }); return [c({ id: 1, e: "a@b.co", t: ["x"] }), c({ id: -1, e: "q", t: [], z: 1 })]; };`,
  ],
  [
    "@vinejs/vine",
    `import vine from "@vinejs/vine"; export default async () => { const v = vine.compile(vine.object({ email: vine.string().email(), n: vine.number().min(2), tags: vine.array(vine.string()).minLength(1) })); const [e] = await v.tryValidate({ email: "x", n: 1, tags: [] }); return [await v.validate({ email: "a@b.co", n: "5", tags: ["q"] }), e.messages]; };`,
  ],
  [
    "@exodus/schemasafe",
    `import { validator, parser } from "@exodus/schemasafe"; export default () => { const v = validator({ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", required: ["a"], properties: { a: { type: "string", pattern: "^x" } } }, { includeErrors: true, allErrors: true }); return [v({ a: "xq" }), v({ a: "q" }), v.errors]; };`,
  ],
  [
    "fast-jwt",
    `import { createSigner, createVerifier, createDecoder } from "fast-jwt"; import { generateKeyPairSync } from "node:crypto"; export default () => { const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256", privateKeyEncoding: { type: "pkcs8", format: "pem" }, publicKeyEncoding: { type: "spki", format: "pem" } }); const t = createSigner({ key: privateKey, noTimestamp: true })({ a: 1 }); const h = createSigner({ key: "secret", noTimestamp: true, algorithm: "HS512" })({ b: 2 }); let e; try { createVerifier({ key: "wrong" })(h); } catch (x) { e = x.code; } return [createVerifier({ key: publicKey })(t), h, createVerifier({ key: "secret" })(h), createDecoder({ complete: true })(t).header, e]; };`,
  ],
  [
    "jws",
    `import jws from "jws"; import { generateKeyPairSync } from "node:crypto"; export default () => { const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048, privateKeyEncoding: { type: "pkcs8", format: "pem" }, publicKeyEncoding: { type: "spki", format: "pem" } }); const s = jws.sign({ header: { alg: "HS256" }, payload: "hi", secret: "k" }); const p = jws.sign({ header: { alg: "PS256" }, payload: { a: 1 }, privateKey }); return new Promise((res) => jws.createSign({ header: { alg: "RS256" }, payload: "x", privateKey }).on("done", (sig) => res([s, jws.verify(s, "HS256", "k"), jws.verify(p, "PS256", publicKey), jws.verify(sig, "RS256", publicKey), jws.decode(p).payload]))); };`,
  ],
  [
    "openid-client",
    `import * as c from "openid-client"; export default async () => { const v = c.randomPKCECodeVerifier(); const cfg = new c.Configuration({ issuer: "https://i", authorization_endpoint: "https://i/auth", token_endpoint: "https://i/t" }, "id", "sec"); cfg[c.customFetch] = async (u, i) => new Response(JSON.stringify({ access_token: "at", token_type: "bearer", expires_in: 5 }), { headers: { "content-type": "application/json" } }); const t = await c.clientCredentialsGrant(cfg, { scope: "a" }); return [v.length, (await c.calculatePKCECodeChallenge("abc")), c.buildAuthorizationUrl(cfg, { redirect_uri: "http://x/cb", scope: "openid" }).href, t.access_token, t.expiresIn()]; };`,
  ],
  [
    "@simplewebauthn/server",
    `import { generateRegistrationOptions, verifyRegistrationResponse } from "@simplewebauthn/server"; export default async () => { const o = await generateRegistrationOptions({ rpName: "r", rpID: "x.com", userName: "u", challenge: "abc" }); const e = await verifyRegistrationResponse({ response: { id: "a", rawId: "a", type: "public-key", response: { clientDataJSON: Buffer.from('{"type":"webauthn.create","challenge":"q"}').toString("base64url"), attestationObject: "" }, clientExtensionResults: {} }, expectedChallenge: "z", expectedOrigin: "o" }).catch((x) => x.message); return [o.challenge, o.pubKeyCredParams, e]; };`,
  ],
  [
    "sshpk",
    `import sshpk from "sshpk"; export default () => { const k = sshpk.generatePrivateKey("ecdsa"); const s = k.createSign("sha256").update("d").sign(); const pub = sshpk.parseKey("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk+8wF0M2Z4rT3l0v5wq0m3b1s7d0f5u6i7o8p9a0sd c", "ssh"); return [k.type, k.toPublic().createVerify("sha256").update("d").verify(s), pub.type, pub.fingerprint("sha256").toString(), k.toPublic().toString("ssh").slice(0, 19), sshpk.parsePrivateKey(k.toString("pem"), "pem").fingerprint().toString() === k.fingerprint().toString()]; };`,
  ],
  [
    "zxcvbn",
    `import z from "zxcvbn"; export default () => ["password", "correct horse battery staple", "Tr0ub4dour&3"].map((p) => [z(p).score, z(p).feedback.warning]);`,
  ],
  [
    "oauth-1.0a",
    `import OAuth from "oauth-1.0a"; import crypto from "node:crypto"; export default () => { const o = OAuth({ consumer: { key: "ck", secret: "cs" }, signature_method: "HMAC-SHA1", hash_function: (b, k) => crypto.createHmac("sha1", k).update(b).digest("base64") }); o.getNonce = () => "n"; o.getTimeStamp = () => 1; return o.toHeader(o.authorize({ url: "http://x/a?b=c", method: "POST", data: { d: "e f" } }, { key: "t", secret: "s" })); };`,
  ],
  [
    "@hapi/iron",
    `import * as I from "@hapi/iron"; const Iron = I.default ?? I; export default async () => { const p = "some_not_random_password_that_is_at_least_32_characters"; const s = await Iron.seal({ a: 1 }, p, Iron.defaults); const bad = await Iron.unseal(s, p.replace("some", "none"), Iron.defaults).catch((e) => e.message); return [s.slice(0, 7), await Iron.unseal(s, p, Iron.defaults), bad]; };`,
  ],
  [
    "age-encryption",
    `import * as age from "age-encryption"; export default async () => { const id = await age.generateIdentity(); const e = new age.Encrypter(); e.addRecipient(await age.identityToRecipient(id)); const c = await e.encrypt("secret"); const d = new age.Decrypter(); d.addIdentity(id); const p = new age.Encrypter(); p.setPassphrase("pw"); p.setScryptWorkFactor(8); const pd = new age.Decrypter(); pd.addPassphrase("pw"); return [await d.decrypt(c, "text"), await pd.decrypt(await p.encrypt("x"), "text"), age.armor.encode(c).split("\\n")[0]]; };`,
  ],
  [
    "asn1js",
    `import * as asn1js from "asn1js"; export default () => { const s = new asn1js.Sequence({ value: [new asn1js.Integer({ value: 5 }), new asn1js.ObjectIdentifier({ value: "1.2.840.113549" }), new asn1js.Utf8String({ value: "é" })] }); const b = s.toBER(); const r = asn1js.fromBER(b); return [Buffer.from(b).toString("hex"), r.result.valueBlock.value.map((v) => v.constructor.name.length > 0), r.result.valueBlock.value[1].valueBlock.toString()]; };`,
  ],
  [
    "cytoscape",
    `import cytoscape from "cytoscape"; export default () => { const cy = cytoscape({ headless: true, elements: [{ data: { id: "a" } }, { data: { id: "b" } }, { data: { id: "c" } }, { data: { id: "ab", source: "a", target: "b", w: 3 } }, { data: { id: "bc", source: "b", target: "c", w: 1 } }] }); return [cy.elements().dijkstra("#a", (e) => e.data("w")).distanceTo("#c"), cy.elements().pageRank().rank("#b").toFixed(4), cy.$("#a").neighborhood().map((e) => e.id()), cy.elements().bfs({ roots: "#a" }).path.map((e) => e.id())]; };`,
  ],
  [
    "elkjs",
    `import ELK from "elkjs/lib/elk.bundled.js"; export default async () => { const r = await new ELK().layout({ id: "r", layoutOptions: { "elk.algorithm": "layered" }, children: [{ id: "a", width: 30, height: 30 }, { id: "b", width: 30, height: 30 }], edges: [{ id: "e", sources: ["a"], targets: ["b"] }] }); return r.children.map((c) => [c.id, c.x, c.y]); };`,
  ],
  [
    "@tmcw/togeojson",
    `import { gpx, kml } from "@tmcw/togeojson"; import { DOMParser } from "@xmldom/xmldom"; export default () => gpx(new DOMParser().parseFromString('<gpx version="1.1"><wpt lat="1" lon="2"><name>x</name></wpt><trk><trkseg><trkpt lat="1" lon="1"/><trkpt lat="2" lon="2"/></trkseg></trk></gpx>', "text/xml"));`,
  ],
  [
    "supercluster",
    `import Supercluster from "supercluster"; export default () => { const s = new Supercluster({ radius: 40, maxZoom: 16 }).load(Array.from({ length: 20 }, (_, i) => ({ type: "Feature", properties: { i }, geometry: { type: "Point", coordinates: [i / 10, i / 20] } }))); return s.getClusters([-180, -85, 180, 85], 2).map((c) => [c.properties.point_count, c.geometry.coordinates]); };`,
  ],
  [
    "geotiff",
    `import { fromArrayBuffer, writeArrayBuffer } from "geotiff"; export default async () => { const b = writeArrayBuffer([1, 2, 3, 4, 5, 6], { height: 2, width: 3 }); const t = await fromArrayBuffer(b); const i = await t.getImage(); const [r] = await i.readRasters(); return [i.getWidth(), i.getHeight(), [...r]]; };`,
  ],
  [
    "ml-pca",
    `import { PCA } from "ml-pca"; export default () => { const p = new PCA([[1, 2, 3], [2, 4, 6.5], [3, 5, 9], [4, 8.5, 12]]); return [p.getExplainedVariance().map((v) => v.toFixed(5)), p.predict([[1, 2, 3]]).to2DArray()[0].map((v) => Math.abs(v).toFixed(5))]; };`,
  ],
  [
    "ml-random-forest",
    `import { RandomForestClassifier } from "ml-random-forest"; export default () => { const c = new RandomForestClassifier({ seed: 3, maxFeatures: 0.8, replacement: true, nEstimators: 10 }); const X = [[0, 0], [0, 1], [1, 0], [5, 5], [5, 6], [6, 5]], y = [0, 0, 0, 1, 1, 1]; c.train(X, y); return c.predict([[0.2, 0.1], [5.5, 5.2]]); };`,
  ],
  [
    "nspell",
    `import nspell from "nspell"; export default () => { const s = nspell("SET UTF-8\\nTRY esianrtolcdugmphbyfvkwz\\nSFX S Y 1\\nSFX S 0 s .\\n", "3\\nhello/S\\nworld\\ncolour\\n"); return [s.correct("hellos"), s.correct("helo"), s.suggest("helo"), s.suggest("wrold")]; };`,
  ],
  [
    "diff-match-patch",
    `import DMP from "diff-match-patch"; export default () => { const d = new DMP(); const x = d.diff_main("The quick fox", "The slow fox!"); d.diff_cleanupSemantic(x); const p = d.patch_make("The quick fox", "The slow fox!"); return [x, d.patch_toText(p), d.patch_apply(p, "The quick fox"), d.match_main("abcdef", "de", 0)]; };`,
  ],
  [
    "rfc6902",
    `import { createPatch, applyPatch } from "rfc6902"; export default () => { const a = { x: [1, 2], y: { z: "q" } }; const p = createPatch(a, { x: [1, 3, 4], y: {} }); return [p, applyPatch(a, p), a]; };`,
  ],
  [
    "@reduxjs/toolkit",
    `import { configureStore, createSlice, createAsyncThunk, createEntityAdapter } from "@reduxjs/toolkit"; export default async () => { const load = createAsyncThunk("l", async (x, { rejectWithValue }) => x > 1 ? rejectWithValue("big") : x * 2); const ad = createEntityAdapter(); const s = createSlice({ name: "s", initialState: ad.getInitialState({ n: 0 }), reducers: { add: ad.addOne }, extraReducers: (b) => b.addCase(load.fulfilled, (st, a) => { st.n = a.payload; }).addCase(load.rejected, (st, a) => { st.e = a.payload; }) }); const store = configureStore({ reducer: s.reducer }); store.dispatch(s.actions.add({ id: 1, v: "x" })); await store.dispatch(load(1)); await store.dispatch(load(5)); return store.getState(); };`,
  ],
  [
    "effector",
    `import { createStore, createEvent, createEffect, sample, allSettled, fork } from "effector"; export default async () => { const inc = createEvent(); const $n = createStore(0).on(inc, (n, x) => n + x); const fx = createEffect(async (n) => n * 10); const $r = createStore(null).on(fx.doneData, (_, v) => v); sample({ clock: $n, target: fx }); const scope = fork(); await allSettled(inc, { scope, params: 3 }); return [scope.getState($n), scope.getState($r), $n.getState()]; };`,
  ],
  [
    "@tanstack/query-core",
    `import { QueryClient, QueryObserver } from "@tanstack/query-core"; export default async () => { const q = new QueryClient({ defaultOptions: { queries: { retry: 2, retryDelay: 1, gcTime: 10 } } }); let n = 0; const r = await q.fetchQuery({ queryKey: ["a", 1], queryFn: async () => { if (++n < 3) throw new Error("x"); return n; } }); const seen = []; const o = new QueryObserver(q, { queryKey: ["a", 1], queryFn: async () => 9, staleTime: Infinity }); const un = o.subscribe((x) => seen.push(x.data)); await q.invalidateQueries({ queryKey: ["a"] }); un(); q.clear(); return [r, n, seen.at(-1)]; };`,
  ],
  [
    "@logtape/logtape",
    `import { configure, getLogger, getConsoleSink, withContext, getAnsiColorFormatter, getJsonLinesFormatter } from "@logtape/logtape"; import { AsyncLocalStorage } from "node:async_hooks"; export default async () => { const out = []; await configure({ reset: true, contextLocalStorage: new AsyncLocalStorage(), sinks: { a: (r) => out.push([r.category, r.level, r.message, r.properties]) }, loggers: [{ category: "app", sinks: ["a"], lowestLevel: "info" }, { category: ["logtape", "meta"], sinks: [] }] }); const l = getLogger(["app", "x"]); withContext({ req: 1 }, () => l.info("hi {name}", { name: "n" })); l.debug("no"); l.warn\`t \${5}\`; return out; };`,
  ],
  [
    "serialize-error",
    `import { serializeError, deserializeError, isErrorLike } from "serialize-error"; export default () => { const e = Object.assign(new TypeError("x", { cause: new Error("c") }), { code: "E", when: new Date(0), buf: Buffer.from("a"), self: null }); e.self = e; const { stack, ...s } = serializeError(e); delete s.cause.stack; return [s, deserializeError({ name: "RangeError", message: "q" }) instanceof RangeError, isErrorLike({ name: "a", message: "b", stack: "c" })]; };`,
  ],
  [
    "unstorage",
    `import { createStorage, prefixStorage } from "unstorage"; import fsDriver from "unstorage/drivers/fs"; export default async () => { const s = createStorage(); await s.setItem("a:b", { x: 1 }); await s.setItemRaw("raw", new Uint8Array([1])); s.mount("f", fsDriver({ base: "/tmp/unst" })); await s.setItem("f:k", "v"); return [await s.getItem("a:b"), (await s.getKeys()).sort(), await prefixStorage(s, "a").getItem("b"), await s.getItem("f:k"), await s.hasItem("zz")]; };`,
  ],
  [
    "yargs",
    `import yargs from "yargs"; export default async () => { const a = await yargs(["serve", "--port", "80", "-v", "x"]).command("serve [file]", "d", (y) => y.positional("file", { type: "string" }).option("port", { type: "number", default: 1 })).option("v", { alias: "verbose", type: "boolean" }).parse(); const help = await yargs([]).scriptName("t").option("q", { describe: "Q", type: "string" }).getHelp(); delete a.$0; return [a, help]; };`,
  ],
  [
    "node-stream-zip",
    `import StreamZip from "node-stream-zip"; import fs from "node:fs"; import JSZip from "jszip"; export default async () => { const z = new JSZip(); z.file("a.txt", "hello".repeat(50)); z.file("d/b", "x"); fs.writeFileSync("/tmp/nsz.zip", await z.generateAsync({ type: "nodebuffer", compression: "DEFLATE" })); const s = new StreamZip.async({ file: "/tmp/nsz.zip" }); const e = await s.entries(); const r = [Object.keys(e).sort(), (await s.entryData("a.txt")).length]; await s.close(); return r; };`,
  ],
  [
    "streamx",
    `import { Readable, Writable, Transform, pipeline, pipelinePromise } from "streamx"; export default async () => { const out = []; await pipelinePromise(Readable.from(["a", "b"]), new Transform({ transform(d, cb) { cb(null, String(d).toUpperCase()); } }), new Writable({ write(d, cb) { out.push(String(d)); cb(null); } })); const r = []; for await (const x of Readable.from([1, 2])) r.push(x); return [out, r]; };`,
  ],
  [
    "JSONStream",
    `import JSONStream from "JSONStream"; import { Readable } from "node:stream"; export default () => new Promise((res, rej) => { const o = []; Readable.from(['{"rows":[{"v":1},{"v"', ':2}],"t":3}']).pipe(JSONStream.parse("rows.*.v")).on("data", (d) => o.push(d)).on("header", (h) => o.push("h")).on("footer", (f) => o.push(f)).on("end", () => res(o)).on("error", rej); });`,
  ],
  [
    "@fastify/busboy",
    `import Busboy from "@fastify/busboy"; export default () => new Promise((res, rej) => { const o = []; const b = new Busboy({ headers: { "content-type": "multipart/form-data; boundary=X" }, limits: { fileSize: 4 } }); b.on("field", (n, v) => o.push([n, v])); b.on("file", (n, s, f, enc, mime) => { let t = ""; s.on("data", (c) => { t += c; }); s.on("limit", () => o.push("limit")); s.on("end", () => o.push([n, f, mime, t])); }); b.on("finish", () => res(o)); b.on("error", rej); b.end('--X\\r\\nContent-Disposition: form-data; name="a"\\r\\n\\r\\n1é\\r\\n--X\\r\\nContent-Disposition: form-data; name="f"; filename="n.txt"\\r\\nContent-Type: text/plain\\r\\n\\r\\nhello world\\r\\n--X--\\r\\n'); });`,
  ],
  [
    "light-my-request",
    `import inject from "light-my-request"; export default async () => { const r = await inject((req, res) => { let b = ""; req.on("data", (c) => { b += c; }); req.on("end", () => { res.writeHead(201, { "content-type": "application/json", "set-cookie": "a=b" }); res.end(JSON.stringify({ m: req.method, u: req.url, b, h: req.headers["x-a"] })); }); }, { method: "POST", url: "/x?y=1", payload: { q: 1 }, headers: { "x-a": "v" } }); return [r.statusCode, r.json(), r.cookies]; };`,
  ],
  [
    "msw",
    `import { http, HttpResponse, getResponse } from "msw"; export default async () => { const hs = [http.get("https://x.com/u/:id", ({ params, request }) => HttpResponse.json({ id: params.id, q: new URL(request.url).searchParams.get("q") }, { status: 202 })), http.post("https://x.com/f", async ({ request }) => HttpResponse.text("got " + (await request.text())))]; const a = await getResponse(hs, new Request("https://x.com/u/5?q=z")); const b = await getResponse(hs, new Request("https://x.com/f", { method: "POST", body: "hi" })); return [a.status, await a.json(), await b.text(), (await getResponse(hs, new Request("https://y.com/"))) ?? null]; };`,
  ],
  [
    "graphql-yoga",
    `import { createYoga, createSchema } from "graphql-yoga"; export default async () => { const y = createYoga({ logging: false, schema: createSchema({ typeDefs: "type Query { hi(n: String!): String! bad: Int }", resolvers: { Query: { hi: (_, { n }) => "hi " + n, bad: () => { throw new Error("secret"); } } } }) }); const q = async (query, variables) => (await y.fetch("http://x/graphql", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ query, variables }) })).json(); const bad = await q("{ bad }"); return [await q("query($n: String!) { hi(n: $n) }", { n: "a" }), bad.errors[0].message, (await q("{ nope }")).errors[0].message]; };`,
  ],
  [
    "@apollo/client",
    `import { ApolloClient, InMemoryCache, gql, HttpLink } from "@apollo/client"; export default async () => { const seen = []; const c = new ApolloClient({ cache: new InMemoryCache(), link: new HttpLink({ uri: "http://x/g", fetch: async (u, i) => { seen.push(JSON.parse(i.body).variables); return new Response(JSON.stringify({ data: { user: { __typename: "User", id: "1", name: "n" } } }), { headers: { "content-type": "application/json" } }); } }) }); const q = gql\`query Q($id: ID) { user(id: $id) { id name } }\`; const a = await c.query({ query: q, variables: { id: "1" } }); await c.query({ query: q, variables: { id: "1" } }); return [a.data, seen.length, c.extract()["User:1"]]; };`,
  ],
  [
    "swagger-client",
    `import SwaggerClient from "swagger-client"; export default async () => { const spec = { openapi: "3.0.0", info: { title: "t", version: "1" }, servers: [{ url: "http://api" }], paths: { "/u/{id}": { get: { operationId: "getU", parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }, { name: "q", in: "query", schema: { type: "array", items: { type: "string" } } }], responses: { 200: { description: "ok" } } } } } }; const r = SwaggerClient.buildRequest({ spec, operationId: "getU", parameters: { id: "a/b", q: ["x", "y"] } }); return [r.url, r.method]; };`,
  ],
  [
    "image-js",
    `import * as I from "image-js"; export default () => { const img = new I.Image(4, 4, { colorModel: "RGB" }); img.setPixel?.(1, 1, [255, 0, 0]); const g = img.grey(); const r = img.resize({ width: 2, height: 2 }); const png = I.encode(img, { format: "png" }); const back = I.decode(png); return [g.channels, r.width, back.width, [...back.getPixel(1, 1)]]; };`,
  ],
  [
    "@zxing/library",
    `import { QRCodeWriter, BarcodeFormat, EncodeHintType, QRCodeReader, BinaryBitmap, HybridBinarizer, RGBLuminanceSource } from "@zxing/library"; export default () => { const m = new QRCodeWriter().encode("hello", BarcodeFormat.QR_CODE, 100, 100, new Map()); const px = new Uint8ClampedArray(100 * 100); for (let y = 0; y < 100; y++) for (let x = 0; x < 100; x++) px[y * 100 + x] = m.get(x, y) ? 0 : 255; const r = new QRCodeReader().decode(new BinaryBitmap(new HybridBinarizer(new RGBLuminanceSource(px, 100, 100)))); return r.getText(); };`,
  ],
  [
    "@huggingface/jinja",
    `import { Template } from "@huggingface/jinja"; export default () => new Template("{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content | trim }}{% if not loop.last %}\\n{% endif %}{% endfor %}{{ x | default('d') | upper }}{{ {'a': [1, 2]} | tojson }}").render({ messages: [{ role: "user", content: " hi " }, { role: "bot", content: "yo" }] });`,
  ],
  [
    "tar-fs",
    `import tar from "tar-fs"; import fs from "node:fs"; import { pipeline } from "node:stream/promises"; export default async () => { fs.rmSync("/tmp/tf", { recursive: true, force: true }); fs.mkdirSync("/tmp/tf/src/d", { recursive: true }); fs.writeFileSync("/tmp/tf/src/a.txt", "hi"); fs.writeFileSync("/tmp/tf/src/d/b", "x"); await pipeline(tar.pack("/tmp/tf/src"), tar.extract("/tmp/tf/out")); return [fs.readdirSync("/tmp/tf/out", { recursive: true }).sort(), fs.readFileSync("/tmp/tf/out/a.txt", "utf8")]; };`,
  ],
  [
    "decompress",
    `import * as d from "decompress"; const decompress = d.default ?? d; import JSZip from "jszip"; export default async () => { const z = new JSZip(); z.file("a.txt", "hi"); const b = await z.generateAsync({ type: "nodebuffer" }); return (await decompress(b)).map((f) => [f.path, f.type, f.data.toString()]); };`,
  ],
  [
    "formidable",
    `import formidable from "formidable"; import { Readable } from "node:stream"; import fs from "node:fs"; export default async () => { const b = '--X\\r\\nContent-Disposition: form-data; name="a"\\r\\n\\r\\n1\\r\\n--X\\r\\nContent-Disposition: form-data; name="f"; filename="n.txt"\\r\\nContent-Type: text/plain\\r\\n\\r\\nhello\\r\\n--X--\\r\\n'; const req = Object.assign(Readable.from([Buffer.from(b)]), { headers: { "content-type": "multipart/form-data; boundary=X", "content-length": String(b.length) } }); const [fields, files] = await formidable({ uploadDir: "/tmp" }).parse(req); return [fields, files.f[0].originalFilename, fs.readFileSync(files.f[0].filepath, "utf8")]; };`,
  ],
  [
    "dockerode",
    `import Docker from "dockerode"; export default async () => { const d = new Docker({ host: "127.0.0.1", port: 1 }); return [typeof d.getContainer("x").start, await d.ping().catch((e) => typeof e.message)]; };`,
  ],
  [
    "jwks-rsa",
    `import jwksClient from "jwks-rsa"; import { generateKeyPairSync } from "node:crypto"; export default async () => { const jwk = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" }); const c = jwksClient({ jwksUri: "https://x", cache: false, getKeysInterceptor: async () => [{ ...jwk, kid: "k1", use: "sig", alg: "RS256" }] }); const k = await c.getSigningKey("k1"); return [k.kid, k.getPublicKey().split("\\n")[0]]; };`,
  ],
  [
    "@seald-io/nedb",
    `import Datastore from "@seald-io/nedb"; export default async () => { const d = new Datastore(); await d.insertAsync([{ a: 1, n: "x" }, { a: 5, n: "y" }, { a: 3, n: "z", t: ["q"] }]); await d.ensureIndexAsync({ fieldName: "n", unique: true }); await d.updateAsync({ n: "x" }, { $inc: { a: 10 } }, {}); const e = await d.insertAsync({ n: "y" }).catch((x) => x.errorType); return [(await d.findAsync({ a: { $gt: 2 } }).sort({ a: -1 }).projection({ _id: 0 })), await d.countAsync({ t: "q" }), e]; };`,
  ],
  [
    "fast-check",
    `import fc from "fast-check"; export default () => { const r = fc.check(fc.property(fc.array(fc.integer()), (a) => a.reduce((x, y) => x + y, 0) < 100), { seed: 42 }); return [r.failed, r.counterexample, r.numShrinks > 0, fc.sample(fc.string(), { seed: 1, numRuns: 3 })]; };`,
  ],
  [
    "@react-email/render",
    `import { render } from "@react-email/render"; import { createElement as h } from "react"; export default async () => { const el = h("div", null, h("h1", null, "Hi"), h("p", null, "a & b"), h("a", { href: "http://x" }, "link")); return [await render(el), await render(el, { plainText: true })]; };`,
  ],
  [
    "@react-pdf/renderer",
    `import { renderToBuffer, Document, Page, Text, View, StyleSheet } from "@react-pdf/renderer"; import { createElement as h } from "react"; export default async () => { const b = await renderToBuffer(h(Document, null, h(Page, { size: "A6", style: { padding: 10 } }, h(View, null, h(Text, null, "Hello"))))); return [b.subarray(0, 5).toString(), b.length > 500]; };`,
    ["webAssembly"],
  ],
  [
    "@internationalized/date",
    `import { parseDate, CalendarDate, toCalendar, JapaneseCalendar, parseZonedDateTime, DateFormatter } from "@internationalized/date"; export default () => [parseDate("2020-02-28").add({ days: 2 }).toString(), toCalendar(new CalendarDate(2020, 5, 1), new JapaneseCalendar()).year, parseZonedDateTime("2021-03-14T01:30[America/New_York]").add({ hours: 1 }).toString(), new DateFormatter("de", { dateStyle: "long", timeZone: "UTC" }).format(new Date(0))];`,
  ],
  [
    "@formatjs/intl",
    `import { createIntl } from "@formatjs/intl"; export default () => { const i = createIntl({ locale: "fr", messages: { a: "{n, plural, one {# chat} other {# chats}} {d, date, long}" }, timeZone: "UTC" }); return [i.formatMessage({ id: "a" }, { n: 2, d: new Date(0) }), i.formatNumber(1234.5, { style: "currency", currency: "EUR" }), i.formatList(["a", "b"]), i.formatRelativeTime(-3, "day")]; };`,
  ],
  [
    "surrealdb",
    `import { RecordId, Table, Duration, Decimal, Uuid, jsonify, StringRecordId } from "surrealdb"; export default () => [String(new RecordId("a", "b c")), String(new Table("t")), jsonify({ r: new RecordId("p", 1), d: new Duration("1h30m") })];`,
  ],
  [
    "zod-openapi",
    `import { createDocument } from "zod-openapi"; import { z } from "zod"; export default () => createDocument({ openapi: "3.1.0", info: { title: "t", version: "1" }, paths: { "/a/{id}": { get: { requestParams: { path: z.object({ id: z.string() }) }, responses: { 200: { description: "ok", content: { "application/json": { schema: z.object({ a: z.number().optional() }).meta({ id: "A" }) } } } } } } } });`,
  ],
  [
    "pdf-merger-js",
    `import PDFMerger from "pdf-merger-js"; import { PDFDocument } from "pdf-lib"; export default async () => { const mk = async (n) => { const d = await PDFDocument.create(); for (let i = 0; i < n; i++) d.addPage([100, 100]); return d.save(); }; const m = new PDFMerger(); await m.add(Buffer.from(await mk(2))); await m.add(Buffer.from(await mk(3)), "1-2"); await m.setMetadata({ title: "T" }); const d = await PDFDocument.load(await m.saveAsBuffer()); return [d.getPageCount(), d.getTitle()]; };`,
  ],
  [
    "multer",
    `import multer from "multer"; import { Readable } from "node:stream"; export default () => new Promise((res, rej) => { const b = '--X\\r\\nContent-Disposition: form-data; name="a"\\r\\n\\r\\n1\\r\\n--X\\r\\nContent-Disposition: form-data; name="f"; filename="n.txt"\\r\\nContent-Type: text/plain\\r\\n\\r\\nhello\\r\\n--X--\\r\\n'; const req = Object.assign(Readable.from([Buffer.from(b)]), { headers: { "content-type": "multipart/form-data; boundary=X", "content-length": String(b.length) } }); multer().single("f")(req, {}, (e) => e ? rej(e) : res([req.body, req.file.originalname, req.file.buffer.toString()])); });`,
  ],
  [
    "hyparquet-writer",
    `import { parquetWriteBuffer } from "hyparquet-writer"; import { parquetReadObjects } from "hyparquet"; export default async () => { const file = parquetWriteBuffer({ columnData: [{ name: "a", data: [1, 2, 3], type: "INT32" }, { name: "s", data: ["x", "y", null], type: "STRING" }] }); return [file.byteLength, await parquetReadObjects({ file })]; };`,
  ],
  [
    "mt940js",
    `import { Parser } from "mt940js"; export default () => new Parser().parse(":20:B4E08MS9D00A0009\\n:25:123456789\\n:28C:123/1\\n:60F:C140507EUR0,00\\n:61:1405070507C500,00NTRFNONREF//AUXREF\\n:86:LOREM IPSUM\\n:62F:C140508EUR500,00\\n-").map((s) => [s.accountIdentification, s.closingBalance, s.transactions.map((t) => [t.amount, t.details])]);`,
  ],
  [
    "node-html-markdown",
    `import { NodeHtmlMarkdown } from "node-html-markdown"; export default () => NodeHtmlMarkdown.translate("<h1>T</h1><p>a <b>b</b> <a href='http://x'>l</a></p><ul><li>1<ol><li>2</li></ol></li></ul><table><tr><th>h</th></tr><tr><td>d</td></tr></table><pre><code class='language-js'>x()</code></pre>");`,
  ],
  [
    "nock",
    `import nock from "nock"; export default async () => { nock("http://api.test").get("/a").query({ q: "1" }).reply(200, { ok: true }, { "x-h": "v" }); const r = await fetch("http://api.test/a?q=1"); return [r.status, await r.json(), nock.isDone()]; };`,
    ["webAssembly"],
  ],
  [
    "@viz-js/viz",
    `import { instance } from "@viz-js/viz"; export default async () => (await instance()).renderString("digraph { a -> b }", { format: "dot" });`,
    ["webAssembly"],
  ],
];
