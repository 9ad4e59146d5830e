// Prefixes by which issuers make their keys recognizable, from the issuers' documentation. Public keys (`pk_live_…`) are not included.

/**
 * Sources of regular expressions. None looks further ahead than its shortest key before it fails, so that a text of prefixes only is also
 * read in linear time.
 */
const KEYS: readonly string[] = [
  // OpenAI and providers with the same form; Anthropic, OpenRouter, Langfuse
  "sk-(?:proj|svcacct|admin|None|ant|or|lf|live|test)-[A-Za-z0-9_-]{16,}",
  "sk-[A-Za-z0-9]{20,}",
  // Stripe, and Clerk and others with the same form
  "(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}",
  "whsec_[A-Za-z0-9+/=]{16,}",
  // GitHub, GitLab
  "gh[pousr]_[A-Za-z0-9]{30,}",
  "github_pat_[A-Za-z0-9_]{22,}",
  "gl(?:pat|dt|rt|ptt|cbt|ft|agent|oas|soat|imt)-[A-Za-z0-9_-]{20,}",
  // Slack
  "xox[abcdeoprs]-[A-Za-z0-9-]{10,}",
  "xapp-[0-9]-[A-Za-z0-9-]{10,}",
  "hooks\\.slack\\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/]{20,}",
  "discord(?:app)?\\.com/api/webhooks/[0-9]{8,25}/[A-Za-z0-9_-]{20,}",
  // AWS: access key ids
  "(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
  // Google: API keys, access tokens, OAuth client secrets
  "AIza[A-Za-z0-9_-]{35}",
  "ya29\\.[A-Za-z0-9_-]{20,}",
  "GOCSPX-[A-Za-z0-9_-]{20,}",
  "1//0[A-Za-z0-9_-]{30,}",
  // Registries
  "npm_[A-Za-z0-9]{36}",
  "pypi-[A-Za-z0-9_-]{50,}",
  "rubygems_[a-f0-9]{48}",
  "cio[A-Za-z0-9]{32}(?![A-Za-z0-9])",
  "dckr_pat_[A-Za-z0-9_-]{20,}",
  // Model providers
  "hf_[A-Za-z0-9]{30,}",
  "gsk_[A-Za-z0-9]{40,}",
  "pplx-[A-Za-z0-9]{40,}",
  "r8_[A-Za-z0-9]{30,}",
  "xai-[A-Za-z0-9]{40,}",
  "tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}",
  "nvapi-[A-Za-z0-9_-]{40,}",
  "lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
  // Mail and messages
  "SG\\.[A-Za-z0-9_-]{16,32}\\.[A-Za-z0-9_-]{32,64}",
  "xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
  "key-[0-9a-f]{32}(?![A-Za-z0-9])",
  "SK[0-9a-f]{32}(?![A-Za-z0-9])",
  "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
  "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}",
  // Shops and payments
  "shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
  "sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}",
  "EAAA[A-Za-z0-9_-]{56,}",
  "(?:access|production|sandbox)_token\\$[A-Za-z0-9$]{20,}",
  // Clouds, data, operations
  "do[opr]_v1_[a-f0-9]{64}",
  "dapi[a-f0-9]{32}(?![A-Za-z0-9])",
  "hv[sbr]\\.[A-Za-z0-9_-]{24,}",
  "dp\\.(?:pt|st|ct|sa|scim|audit)\\.[A-Za-z0-9._-]{40,}",
  "pscale_(?:tkn|pw|oauth)_[A-Za-z0-9._=-]{32,}",
  "sbp_[a-f0-9]{40}",
  "sb_secret_[A-Za-z0-9_-]{20,}",
  "tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9-]{20,}",
  "pul-[a-f0-9]{40}",
  "[A-Za-z0-9]{14}\\.atlasv1\\.[A-Za-z0-9_=-]{60,}",
  "ATATT3[A-Za-z0-9_=-]{50,}",
  "lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
  "(?:ntn|secret)_[A-Za-z0-9]{43,}",
  "fig[dou]r?_[A-Za-z0-9_-]{20,}",
  "pat[A-Za-z0-9]{14}\\.[a-f0-9]{64}",
  "PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
  "NRAK-[A-Z0-9]{27}",
  "sntr(?:ys|yu)_[A-Za-z0-9_+/=-]{40,}",
  "gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}",
  "FlyV1 [A-Za-z0-9_+/=,-]{30,}",
  "HRKU-[A-Za-z0-9_-]{30,}",
  "ops_eyJ[A-Za-z0-9+/=]{100,}",
  "AGE-SECRET-KEY-1[A-Z0-9]{50,}",
  "CFPAT-[A-Za-z0-9_-]{40,}",
];

/** Matches a key of any issuer that is not part of a longer word. */
export const KEY_PREFIXES: RegExp = new RegExp(`(?<![A-Za-z0-9])(?:${KEYS.join("|")})`, "g");
