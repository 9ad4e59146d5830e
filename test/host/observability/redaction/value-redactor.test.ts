// redact(): names, patterns and known values that must be redacted, and texts that must be kept.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSecretName, wordsOf } from "../../../../src/host/observability/redaction/key-names.ts";
import { redact, ValueRedactor } from "../../../../src/host/observability/redaction/value-redactor.ts";
import { ToolError } from "../../../../src/sandbox/contract/errors.ts";
import { expectLinearTime } from "../../../support/processes.ts";

const names = (text: string): string[] => text.trim().split(/\s+/);

const SECRET_NAMES = names(`
  apiKey api_key API-KEY apikey APIKEY ApiKey APIKey APIkey x-api-key X-Api-Key X_API_KEY xApiKey openaiApiKey OPENAI_API_KEY
  api.key apiKeys api_keys_live stripeApiKey Authorization authorization AUTHORIZATION Proxy-Authorization auth x-auth _auth
  accessToken access_token ACCESS-TOKEN accesstoken refreshToken refresh_token idToken id_token IDToken token Token TOKEN authToken
  auth-token sessionToken csrfToken X-CSRF-Token xsrf_token bearerToken botToken slack_bot_token githubToken GITHUB_TOKEN
  npmToken x-amz-security-token X-Vault-Token tokenSecret tokenValue oauth2Token accessTokens refresh_tokens deviceTokens
  clientSecret client_secret CLIENT-SECRET clientsecret secret Secret secrets appSecret webhookSecret mySecret secretValue
  secretKey secret_key SECRET_ACCESS_KEY secretAccessKey awsSecretAccessKey aws_access_key_id accessKeyId accessKey
  password Password PASSWORD passwd pwd PWD passphrase passcode userPassword user_password db-password DB_PASSWORD dbpassword
  rootpassword currentPassword newPassword passwordConfirmation password1 password_2 passwordHash adminPasswords pass DB_PASS smtpPass
  privateKey private_key PRIVATE-KEY privatekey sshKey ssh-key signingKey encryption_key hmacKey masterKey account_key AccountKey
  sharedKey subscriptionKey Ocp-Apim-Subscription-Key consumerKey licenseKey deployKey clientKey appKey
  credential credentials awsCredentials creds cookie Cookie cookies set-cookie Set-Cookie jwt jwtToken
  connectionString connection_string cardNumber card_number creditCard creditCardNumber cvv cvc CVV2 ssn socialSecurityNumber
  sessionCookie OPENAI_KEY stripeKey googleMapsKey cardNo ccnum bearer x-functions-key resetToken password_reset_token NODE_AUTH_TOKEN pgpassword
  auth_code oauthCode code_verifier codeVerifier client_assertion clientAssertion verificationCode
  otp totpSecret recoveryCodes backup_codes seedPhrase authorizationCode sasToken sharedAccessSignature Ｐassword
`);

const PLAIN_NAMES = names(`
  monkey keyboard key keys keyName primaryKey primary_key foreignKey sortKey partitionKey publicKey public_key storageKey cacheKey
  keyId hotkey turkey donkey whiskey hockey jockey keynote keyword keywords keyed latchkey authority author authors authored
  coauthor authoritative authenticate authType authMethod auth_url authenticated authorizationUrl authorization_endpoint
  authorizationServers passage passages passenger passengers passport compass bypass encompass trespass passing passed passRate
  boardingPass passive surpass secretary secretariat secretion secretName secret_name secretId secretCount secretsManager
  tokenizer tokenize tokenized tokenization tokens Tokens maxTokens max_tokens MAX_TOKENS totalTokens promptTokens
  completion_tokens inputTokens outputTokens reasoningTokens cachedTokens tokenCount token_count tokenCounts tokenLimit tokenUsage
  tokensPerMinute tokenType token_type tokenUrl token_endpoint tokenExpiry tokenExpiresAt token_ttl tokenBudget tokenIndex
  nextToken nextPageToken next_page_token pageToken continuationToken cursorToken stopToken eos_token bosToken padToken tokenId
  tokenSymbol tokenAddress betokened broken brokenTokenizer passwordless passwordPolicy password_policy passwordLength passwordMinLength
  passwordResetUrl passwordRequired hasPassword isSecret needsPassword showPassword forgotPassword requiresToken cookiePolicy
  cookieConsent cookieName cookieDomain cookieBanner cookiecutter discount account accountId accounting name username userName email
  userId sessionId session_id id url host port message content description query text value data type status code country
  postcode zipCode pinCode bearerFormat signature cardinal cardHolder discard postcard wildcard cardType creditScore credit
  credentialType apiVersion apiUrl api keyframes monkeyKey passthrough password_expires_at secret-version otpLength accessLevel
  tokenMap tokenStart passwordField passwordProtected enablePasswordLogin secretKeyRef secretArn acceptCookies apiKeyPrefix bearerAuth
  card_last4 ssnLast4 jwks_uri token_endpoint_auth_method apiKeyId passportNumber opinion
  clientAssertionType client_assertion_type verificationCodeLength authCodeExpiresAt
  accessible refresh refreshRate privateNote private clientId client_id client clientele connection string connectionId
`);

describe("isSecretName()", () => {
  test("has enough sample names", () => {
    expect(SECRET_NAMES.length).toBeGreaterThan(120);
    expect(PLAIN_NAMES.length).toBeGreaterThan(150);
  });
  test.for(SECRET_NAMES)("%s is a secret's", (name) => expect(isSecretName(name)).toBe(true));
  test.for(PLAIN_NAMES)("%s is not", (name) => expect(isSecretName(name)).toBe(false));

  test("matches a name in every case style", () => {
    const styles = ["accessKeyId", "AccessKeyId", "access_key_id", "ACCESS_KEY_ID", "access-key-id", "Access Key ID"];
    for (const style of styles) expect(wordsOf(style)).toEqual(["access", "key", "id"]);
    expect(wordsOf("XAPIKey2Value")).toEqual(["xapi", "key", "value"]);
  });
});

const b64 = (text: string): string => Buffer.from(text).toString("base64url");
const JWT = `${b64('{"alg":"HS256","typ":"JWT"}')}.${b64('{"sub":"1234567890"}')}.c2lnbmF0dXJlLW9mLXRoaXM`;
const JWE = `${b64('{"alg":"dir","enc":"A128GCM"}')}..MTIzNDU2Nzg5MDEy.Y2lwaGVydGV4dA.dGFn`;
const PEM = `-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7Zq1\n-----END RSA PRIVATE KEY-----`;
/** Joins the parts of sample keys, so that secret scanners do not report them. */
const key = (...parts: readonly string[]): string => parts.join("");
const A = (count: number): string => "aB3dE5gH1jK7mN9pQ2sT4vW6xY8zA0cF".repeat(4).slice(0, count);
const HEX = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/** A text, and the part of it that must be redacted. */
const SECRET_TEXTS: readonly (readonly [text: string, secret: string])[] = [
  [JWT, JWT],
  [`token is ${JWT}, use it`, JWT],
  [`https://example.com/cb?code=1#id=${JWT}`, JWT],
  [JWT.slice(0, JWT.lastIndexOf(".")), JWT.slice(0, 30)],
  [JWE, JWE],
  [`sess_${JWT}`, JWT],
  [`Bearer ${JWT}`, JWT],
  ["Bearer abcdefgh", "abcdefgh"],
  ["bearer s3cr3t-t0ken", "s3cr3t-t0ken"],
  ["-H 'Authorization: Bearer opaque+Token/value=='", "opaque+Token/value"],
  [
    `Authorization: Basic ${Buffer.from("user:hunter22").toString("base64")}`,
    Buffer.from("user:hunter22").toString("base64"),
  ],
  [`basic ${Buffer.from("a:b").toString("base64")}`, Buffer.from("a:b").toString("base64")],
  [PEM, "MIIEpAIBAAKCAQEA7Zq1"],
  [JSON.stringify({ pem: PEM }), "MIIEpAIBAAKCAQEA7Zq1"],
  [`-----BEGIN PRIVATE KEY-----\nMIIEcut`, "MIIEcut"],
  ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----", "b3Bl"],
  ["-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----", "lQOY"],
  ["-----BEGIN ENCRYPTED PRIVATE KEY-----MIIF-----END ENCRYPTED PRIVATE KEY-----", "MIIF"],
  ["4111111111111111", "4111111111111111"],
  ["4111 1111 1111 1111", "4111 1111 1111 1111"],
  ["4111-1111-1111-1111", "4111-1111-1111-1111"],
  ["card:5555555555554444.", "5555555555554444"],
  ["2223003122003222", "2223003122003222"],
  ["378282246310005", "378282246310005"],
  ["3782 822463 10005", "3782 822463 10005"],
  ["6011111111111117", "6011111111111117"],
  ["3056 930902 5904", "3056 930902 5904"],
  ["3530111333300000", "3530111333300000"],
  ["6200000000000005", "6200000000000005"],
  ["pay 7 4111 1111 1111 1111 now", "4111 1111 1111 1111"],
  [key("sk-", A(48)), A(48)],
  [key("sk-proj-", A(60)), A(60)],
  [key("sk-ant-api03-", A(60)), A(60)],
  [key("sk_live_", A(24)), A(24)],
  [key("rk_test_", A(24)), A(24)],
  [key("whsec_", A(32)), A(32)],
  [key("ghp_", A(36)), A(36)],
  [key("ghs_", A(36)), A(36)],
  [key("github_pat_", A(22), "_", A(59)), A(59)],
  [key("glpat-", A(20)), A(20)],
  [key("xoxb-", "123456789012-", A(24)), A(24)],
  [key("AKIA", "IOSFODNN7EXAMPLE"), "IOSFODNN7EXAMPLE"],
  [key("ASIA", "IOSFODNN7EXAMPLE"), "IOSFODNN7EXAMPLE"],
  [key("AIza", A(35)), A(35)],
  [key("ya29.", A(40)), A(40)],
  [key("GOCSPX-", A(28)), A(28)],
  [key("npm_", A(36)), A(36)],
  [key("hf_", A(34)), A(34)],
  [key("gsk_", A(52)), A(52)],
  [key("SG.", A(22), ".", A(43)), A(43)],
  [key("SK", HEX.slice(0, 32)), HEX.slice(0, 32)],
  [key("shpat_", HEX.slice(0, 32)), HEX.slice(0, 32)],
  [key("dop_v1_", HEX), HEX],
  [key("dapi", HEX.slice(0, 32)), HEX.slice(0, 32)],
  [key("hvs.", A(90)), A(90)],
  [key("lin_api_", A(40)), A(40)],
  [key("123456789:AA", A(33)), A(33)],
  [key("https://hooks.slack.com/services/T00000000/B00000000/", A(24)), A(24)],
  [key("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN"), "QPZRY9X8GF2T"],
  ["postgres://app:hunter22@db.internal/main", "hunter22"],
  ["see https://user:p%40ss@example.com/x", "p%40ss"],
  ["redis://:hunter22@localhost:6379", "hunter22"],
  ["mongodb+srv://u:p:w@cluster/x", "p:w"],
  ["https://api.example.com/v1?api_key=abc123&page=2", "abc123"],
  ["/cb#access_token=opaque&state=1", "opaque"],
  ["grant_type=password&client_secret=hush", "hush"],
  ["DB_PASSWORD=hunter22 node app.js", "hunter22"],
  ["export API_TOKEN='quoted one'", "quoted one"],
  ["Server=db;User=sa;Password=hunter22;", "hunter22"],
  ["AccountName=x;AccountKey=q83vEjRWeJo=;EndpointSuffix=core", "q83vEjRWeJo"],
  ['{"user":"a","password":"hunter22"', "hunter22"],
  ["{'apiKey': 'hunter22', 'n': 1}", "hunter22"],
  ['{"a":"{\\"clientSecret\\":\\"hunter22\\"}"', "hunter22"],
  ['{"password":"with \\" quote hunter22","n":1', "hunter22"],
  ['{"password":"hunter22","password":null}', "hunter22"],
  ["password: hunter22", "hunter22"],
  ["user: a\n  password: hunter22\nport: 1", "hunter22"],
  ["Cookie: sid=abc; theme=dark", "sid=abc"],
  ["GET / HTTP/1.1\r\nX-Api-Key: two words\r\n\r\n", "two words"],
  ['Authorization: Digest username="x"', "Digest"],
  ["mysql --password hunter22 -h db", "hunter22"],
  ["deploy --token=hunter22", "hunter22"],
  ["deploy --api-key hunter22", "hunter22"],
  ["mysql --password 'with space' -h db", "with space"],
  ['deploy --token "with space"', "with space"],
  ['apiKey := "hunter22"', "hunter22"],
  ["password := hunter22", "hunter22"],
  ["4012\u00a08888\u00a08888\u00a01881", "8888"],
  ["4012\u20118888\u20118888\u20111881", "8888"],
  [key("xoxc-12345678-", A(30)), A(30)],
  [key("xkeysib-", HEX, "-", A(16)), HEX],
];

const PLAIN_TEXTS: readonly string[] = [
  "",
  "a",
  "hello world",
  "bearer of bad news",
  "The bearer bonds were sold",
  "Bearer token",
  "Basic auth",
  "basic understanding of physics",
  "Basic instructions follow",
  "BASIC is a language from 1964",
  "1234567812345678",
  "4111111111111112",
  "1111111111111111",
  "0000000000000000",
  "9999999999999999",
  "1700000000000",
  "1700000000000000000",
  "order 4111111111111111234567890",
  "0.4111111111111111",
  "abc4111111111111111",
  "4111111111111111abc",
  "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
  "2021 2022 2023 2024",
  "550e8400-e29b-41d4-a716-446655440000",
  "+49 171 1234567",
  "192.168.100.200",
  "2026-11-22T17:28:22.000Z",
  HEX,
  "deadbeefdeadbeefdeadbeefdeadbeef",
  "eyJ",
  "eyJhbGciOiJub25l",
  "eyJub3QiOiJhIGpvc2UifQ.eyJhIjoxfQ.x",
  "file.name.with.dots",
  "sk-learn",
  "sk-learn-tutorial-for-everyone-2024-edition",
  "pk_live_is_public",
  key("pk_test_", A(24)),
  "task-force-one-two-three-four-five",
  "risk-based-assessment-of-everything-1",
  "AKIA",
  "AKIAlowercase",
  "xoxo",
  "npm_config_registry",
  "hf_hub",
  "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
  "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
  "https://example.com/a?b=c&page=2",
  "https://user@example.com/",
  "http://localhost:8080/@scope/name",
  "mailto:a@b.c",
  "max_tokens=512&temperature=1",
  "monkey=banana&keyboard=qwerty",
  "nextPageToken=abc",
  "Token: the smallest unit of a text",
  "Password: must have eight characters",
  "the password was forgotten",
  "a secret garden",
  "if (token == other) return",
  "token => token.type",
  "password: string;",
  "token?: string",
  "hasPassword=true",
  "password=null",
  "std::string::token",
  "author: Jane",
  "key: value",
  "--verbose --keyboard us",
  "--token --verbose",
  '{"monkey":"see","tokens":12,"maxTokens":512}',
  '{"tokenCount":12,"primaryKey":"id"}',
];

const shown = (value: unknown, options?: Parameters<typeof redact>[1]): string =>
  JSON.stringify(redact(value, options)) ?? "";

describe("redact() of a text", () => {
  test("has enough sample texts", () => {
    expect(SECRET_TEXTS.length).toBeGreaterThan(75);
    expect(PLAIN_TEXTS.length).toBeGreaterThan(60);
  });
  test.for(SECRET_TEXTS)("%s: %s does not show", ([text, secret]) => {
    expect(text).toContain(secret);
    const redacted = redact(text) as string;
    expect(redacted).toContain("[redacted");
    expect(redacted).not.toContain(secret);
    // Also within a larger text, and redacting twice changes nothing.
    expect(redact(`so:\n${text}`)).not.toContain(secret);
    expect(redact(redacted)).toBe(redacted);
  });
  test.for(PLAIN_TEXTS)("%s stays", (text) => expect(redact(text)).toBe(text));

  test("keeps the text around a secret", () => {
    expect(redact("postgres://app:hunter22@db/main?sslmode=on")).toBe(
      "postgres://app:[redacted:password]@db/main?sslmode=on",
    );
    expect(redact("a=1&api_key=x9&b=2")).toBe("a=1&api_key=[redacted:value]&b=2");
    expect(redact('{"a":{"token":"x"},"b":2}')).toBe('{"a":{"token":"[redacted]"},"b":2}');
    expect(redact(`x ${JWT} y`)).toBe("x [redacted:jwt] y");
  });

  test("keeps JSON without secrets unchanged", () => {
    const text = '{ "n": 1.0, "list": [ 1,2 ] }';
    expect(redact(text)).toBe(text);
  });

  test("searches nested JSON in a text", () => {
    const text = JSON.stringify({ body: JSON.stringify({ inner: JSON.stringify({ password: "hunter22" }) }) });
    expect(redact(text)).not.toContain("hunter22");
    expect(JSON.parse(JSON.parse(JSON.parse(redact(text) as string).body).inner)).toEqual({ password: "[redacted]" });
  });
});

describe("redact() of a long text", () => {
  test("truncates it and adds its length", () => {
    const redacted = redact("x".repeat(10_000), { maxTextUnits: 100 }) as string;
    expect(redacted).toMatch(/^x+… \[10000 characters\]$/);
    expect(redacted).toHaveLength(100);
    expect(redact("x".repeat(100), { maxTextUnits: 100 })).toBe("x".repeat(100));
  });

  test("finds a secret across the truncation point", () => {
    for (let at = 60; at < 110; at += 1) {
      expect(redact(`${"x".repeat(at)} ${JWT} ${"y".repeat(500)}`, { maxTextUnits: 100 })).not.toContain("eyJhbGci");
      expect(redact(`${"x".repeat(at)} 4111 1111 1111 1111 ${"y".repeat(500)}`, { maxTextUnits: 100 })).not.toContain(
        "4111",
      );
    }
  });

  test("does not split a character", () => {
    for (let at = 64; at < 70; at += 1)
      expect((redact("😀".repeat(100), { maxTextUnits: at }) as string).isWellFormed()).toBe(true);
  });
});

describe("redact() of a value", () => {
  test("searches at any depth, in arrays, Maps, Sets and errors", () => {
    const error = new Error("login with password=hunter22", { cause: { apiKey: "hunter22" } });
    const value = {
      a: [{ b: [[{ password: "hunter22" }]] }],
      map: new Map<unknown, unknown>([["token", "hunter22"]]),
      set: new Set(["Bearer hunter22"]),
      error: Object.assign(error, { clientSecret: "hunter22" }),
      all: new AggregateError([new Error("token=hunter22")], "many"),
      headers: new Headers({ authorization: "hunter22", accept: "text/html" }),
      form: new URLSearchParams("password=hunter22&page=1"),
      url: new URL("https://u:hunter22@example.com/?token=hunter22"),
    };
    const redacted = redact(value) as { [name: string]: unknown };
    expect(allOf(redacted)).not.toContain("hunter22");
    expect(redacted.map).toEqual(new Map([["token", "[redacted]"]]));
    expect(redacted.headers).toEqual({ accept: "text/html", authorization: "[redacted]" });
    expect(redacted.form).toEqual({ password: "[redacted]", page: "1" });
    expect(redacted.error).toMatchObject({
      name: "Error",
      cause: { apiKey: "[redacted]" },
      clientSecret: "[redacted]",
    });
  });

  test("detects pairs of name and value, and private JSON Web Keys", () => {
    const headers = [
      { name: "Authorization", value: "hunter22" },
      { name: "Accept", value: "text/html" },
    ];
    expect(redact(headers)).toEqual([{ name: "Authorization", value: "[redacted]" }, headers[1]]);
    const pairs = [
      ["cookie", "hunter22"],
      ["accept", "text/html"],
    ];
    expect(redact({ headers: pairs })).toEqual({ headers: [["cookie", "[redacted]"], pairs[1]] });
    expect(redact(["token", "of", "esteem"])).toEqual(["token", "of", "esteem"]);
    expect(redact({ kty: "OKP", crv: "Ed25519", d: "hunter22", x: "public" })).toEqual({
      kty: "OKP",
      crv: "Ed25519",
      d: "[redacted]",
      x: "public",
    });
    expect(redact({ d: 4, p: 5, k: "v" })).toEqual({ d: 4, p: 5, k: "v" });
  });

  test.for<[string, unknown, unknown]>([
    ["a secret object as a whole", { credentials: { user: "a", n: [1] } }, { credentials: "[redacted]" }],
    ["a number that is a secret", { cvv: 123, password: 4_711 }, { cvv: "[redacted]", password: "[redacted]" }],
    [
      "booleans and empty values",
      { password: true, token: null, secret: "" },
      { password: true, token: null, secret: "" },
    ],
    ["counts", { accessTokens: 3, tokens: 5 }, { accessTokens: 3, tokens: 5 }],
    ["a card number that is a number", { n: 4_111_111_111_111_111 }, { n: "[redacted:card]" }],
    ["a card number that is a BigInt", { n: 4_111_111_111_111_111n }, { n: "[redacted:card]" }],
    [
      "other numbers",
      { n: 1_234_567_812_345_678, f: 0.5, i: Number.NaN },
      { n: 1_234_567_812_345_678, f: 0.5, i: Number.NaN },
    ],
    ["bytes", { b: new Uint8Array(12), c: new ArrayBuffer(3) }, { b: "[12 bytes]", c: "[3 bytes]" }],
    ["functions and symbols", { f: () => "x", s: Symbol("s") }, { f: "[function]", s: "[symbol]" }],
    ["dates", { at: new Date(0) }, { at: new Date(0) }],
    ["a secret as a name", { [key("ghp_", A(36))]: 1 }, { "[redacted:api-key]": 1 }],
    ["undefined", undefined, undefined],
  ])("redacts %s", ([, value, expected]) => expect(redact(value)).toEqual(expected));

  test("keeps __proto__ as an ordinary name", () => {
    const redacted = redact(JSON.parse('{"__proto__":{"password":"x"},"a":1}')) as object;
    expect(JSON.stringify(redacted)).toBe('{"__proto__":{"password":"[redacted]"},"a":1}');
    expect(Object.getPrototypeOf(redacted)).toBe(Object.prototype);
  });

  test("terminates for cycles, depth, width and unreadable values", () => {
    const cycle: { self?: unknown; password: string } = { password: "x" };
    cycle.self = [cycle];
    expect(redact(cycle)).toEqual({ password: "[redacted]", self: ["[circular]"] });
    let deep: unknown = "end";
    for (let at = 0; at < 100_000; at += 1) deep = { deep };
    expect(shown(deep)).toContain("[left out]");
    // The same object twice at each of forty levels: 2^40 copies.
    let wide: unknown = "end";
    for (let at = 0; at < 40; at += 1) wide = [wide, wide];
    expect(shown(wide, { maxDepth: 100 })).toContain("left out");
    expect(shown(Array.from({ length: 20_000 }, () => 1))).toContain("more left out");
    // biome-ignore lint/suspicious/noSparseArray: the subject of the test
    expect(shown(Object.assign([, 1], { length: 4_294_967_295 }))).toContain("more left out");
    expect(shown(new Array(4_294_967_295))).toContain("more left out");
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const throwing = Object.defineProperty({ a: 1 }, "b", { get: () => fail(), enumerable: true });
    expect(redact([proxy, throwing])).toEqual(["[unreadable]", { a: 1, b: "[unreadable]" }]);
  });

  test("accepts additional names and values, and allowed names", () => {
    const options = { names: ["customerCode"], allowNames: ["token"], values: { VAULT: "correct horse" } };
    expect(redact({ "X-Customer-Code": "k", customer_code: 5, token: "t", accessToken: "t", a: "b" }, options)).toEqual(
      { "X-Customer-Code": "[redacted]", customer_code: "[redacted]", token: "t", accessToken: "t", a: "b" },
    );
    expect(redact(["say correct horse", encodeURIComponent("correct horse"), btoa("correct horse")], options)).toEqual([
      ...["say [redacted:VAULT]", "[redacted:VAULT]"],
      expect.stringContaining("[redacted:VAULT]"),
    ]);
    expect(redact("customerCode=k&token=t", options)).toBe("customerCode=[redacted:value]&token=t");
  });

  test.for<[string, object, RegExp]>([
    ["a short value", { values: { A: "short" } }, /The secret "A" cannot be redacted: expected a value of 8/],
    ["a length out of range", { maxTextUnits: 1 }, /maxTextUnits/],
    ["an unknown option", { name: ["x"] }, /^options\.name: Unknown option\. Did you mean "names"\?$/],
  ])("rejects %s", ([, options, message]) => {
    expect(() => new ValueRedactor(options)).toThrow(ToolError);
    expect(() => new ValueRedactor(options)).toThrow(message);
  });
});

const fail = (): never => {
  throw new Error("no");
};
/** The complete text of a value, including Maps and Sets. */
const allOf = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) => (inner instanceof Map || inner instanceof Set ? [...inner] : inner));

function freeze(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Object.isFrozen(value) || ArrayBuffer.isView(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) freeze(inner);
  return value;
}

describe("redact() of anything", () => {
  test("never throws, and does not change its argument", () => {
    const anything = fc.anything({
      withBigInt: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withNullPrototype: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        const before = fc.stringify(value);
        redact(freeze(value));
        expect(fc.stringify(value)).toBe(before);
      }),
      { numRuns: 300 },
    );
  });

  test("redacts values of secret names at any position", () => {
    const secret = "Zq9-hunter22-Zq9";
    const tree = fc.letrec((tie) => ({
      node: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom(1, "text", null, true),
        fc.constantFrom(...SECRET_NAMES).map((name) => ({ [name]: secret, other: 1 })),
        fc.array(tie("node"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom("a", "b", "monkey"), tie("node"), { maxKeys: 3 }),
        tie("node").map((value) => JSON.stringify(value)),
        tie("node").map((value) => new Map([["in", value]])),
      ),
    })).node;
    fc.assert(
      fc.property(tree, (value) => {
        expect(allOf(redact(value, { maxTextUnits: 100_000 }))).not.toContain(secret);
      }),
      { numRuns: 500 },
    );
  });

  test("redacts a key among any other text", () => {
    const pieces = SECRET_TEXTS.map(([text]) => text).concat(PLAIN_TEXTS, "=", ": ", '"', "&", "password");
    const secret = key("ghp_", A(36));
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces)), fc.array(fc.constantFrom(...pieces)), (before, after) => {
        expect(redact([...before, secret, ...after].join(" "), { maxTextUnits: 100_000 })).not.toContain(secret);
      }),
      { numRuns: 300 },
    );
  });

  test.for([
    ...'password: |sk-|eyJ.|a=|token=|://|4 |4111 |Bearer |basic a|"password":|\\|--a |1|a|xoxb-|AKIA|[redacted|x:"|Cookie:\n'.split(
      "|",
    ),
    ...'eyJhbGciOiJIUzI1NiJ9.|:\t\t\t\t|password = \n|password=bearer |1.|Token\t|[|{"a":|-----BEGIN PRIVATE KEY-----|-'.split(
      "|",
    ),
    `${"a".repeat(79)}:`,
  ])("takes linear time for a text of repeated %j", (piece) => {
    const options = { maxTextUnits: 10_000_000 };
    expectLinearTime((units) => redact(piece.repeat(Math.ceil(units / piece.length)), options), 5_000);
  });
});
