// Words that identify names of secrets, and neighboring words which show that the name means something else.

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Words that name a secret wherever they occur as a whole word. */
export const SECRET_WORDS: ReadonlySet<string> = new Set(
  words(`
    password passwords passwd passwds pwd passphrase passphrases passcode passcodes
    secret secrets token apikey apikeys apitoken apisecret authtoken authkey accesstoken accesskey refreshtoken idtoken
    sessiontoken csrftoken xsrftoken secretkey privatekey signingkey encryptionkey masterkey sshkey clientkey clientsecret
    authorization credential credentials creds cred cookie cookies sessioncookie jwt jwts
    connectionstring connstring connstr otp totp cvv cvc csc ssn htpasswd seedphrase
    cardnumber cardno creditcard ccnumber ccnum passwort kennwort contrasena mdp
  `),
);

/** Endings that name a secret in a word without boundaries. No other word has them. */
export const SECRET_ENDINGS: readonly string[] = words(
  "password passwd passphrase apikey clientsecret appsecret secretkey privatekey accesstoken refreshtoken authtoken apitoken accesskey sessiontoken csrftoken",
);

/** Not Map.groupBy(): modules must load on a Node that lacks it, so that this Node can be reported. */
function groupByFirst(phrases: readonly (readonly string[])[]): ReadonlyMap<string, readonly (readonly string[])[]> {
  const groups = new Map<string, (readonly string[])[]>();
  for (const phrase of phrases) {
    const [first = ""] = phrase;
    groups.set(first, [...(groups.get(first) ?? []), phrase]);
  }
  return groups;
}

/** Phrases that name a secret, by their first words. */
export const SECRET_PHRASES: ReadonlyMap<string, readonly (readonly string[])[]> = groupByFirst(
  `
    openai key|anthropic key|stripe key|gemini key|mistral key|cohere key|groq key|deepseek key|openrouter key|huggingface key|hf key
    pinecone key|sendgrid key|mailgun key|twilio key|github key|gitlab key|slack key|aws key|azure key|gcp key|algolia key
    cloudflare key|heroku key|supabase key|datadog key|replicate key|perplexity key|elevenlabs key|deepgram key
    api key|api keys|access key|access keys|access key id|secret key|secret keys|private key|private keys|signing key|signature key
    encryption key|decryption key|cipher key|crypto key|ssh key|ssh keys|gpg key|pgp key|rsa key|aes key|hmac key|jwt key|master key
    auth key|authentication key|authorization key|account key|shared key|session key|subscription key|service key|service account key
    license key|licence key|client key|consumer key|application key|app key|deploy key|server key|storage account key|webhook key
    security code|card number|card no|cc num|functions key|maps key|credit card|credit card number|debit card|cc number|pan number|card security code
    social security number|social security|recovery code|recovery codes|backup code|backup codes|one time code|mfa code|two factor code
    seed phrase|recovery phrase|mnemonic phrase|connection string|connection strings|conn string|conn str|auth header
    auth code|oauth code|code verifier|client assertion|verification code
    shared access signature|amz signature|amz credential|private token|pass phrase|pass word|pass code|pass wd
  `
    .trim()
    .split(/\||\n/)
    .map((phrase) => words(phrase)),
);

/** Kinds of tokens that are credentials. Tokens of other kinds are counted units. */
export const TOKEN_KINDS: ReadonlySet<string> = new Set(
  words("access refresh auth api id session bearer csrf xsrf device push fcm oauth personal security secret private"),
);

/** Words before `token` that denote a quantity, a position in a list, or a special token of a model. */
export const QUANTITY_BEFORE: ReadonlySet<string> = new Set(
  words(`
    max min num total per prompt completion input output reasoning thinking cached remaining used estimated average avg first last
    page next previous prev continuation pagination cursor sync stop special eos bos pad unk mask sep cls newline end start
  `),
);

/** Words before a secret's name that make it a statement or a question about the secret. */
export const NON_SECRET_PREFIXES: ReadonlySet<string> = new Set(
  words(`
    is has had needs require requires required should can may allow allows accept accepts enable enables disable disables
    show hide forgot public
  `),
);

/** Words after a secret's name that make it an attribute of the secret. */
export const NON_SECRET_SUFFIXES: ReadonlySet<string> = new Set(
  words(`
    count counts counter limit limits quota budget usage used price cost rate ratio per length len size sizes min max
    type types kind name names id ids label title description placeholder prompt url urls uri uris endpoint endpoints server servers
    expiry expires expired expiration expire at in on ttl age lifetime issued rotated rotation updated created changed modified
    policy policies rule rules required enabled disabled valid invalid validity verified supported allowed exists present missing
    format pattern regex schema algorithm alg strength score index position offset scope scopes issuer audience status state error
    errors version path paths file files filename dir directory folder domain consent banner preference preferences setting settings
    option options config configuration page form button visible visibility source mode method methods strategy provider providers
    manager store storage service vault logprob logprobs logprobability probability distribution symbol address decimals balance supply standard amount
    contract holders economics stream bucket map class start end field fields ref refs arn prefix suffix last protected login
  `),
);
