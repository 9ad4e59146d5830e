// A catalog of 1,000 tools as integrations have them, and a request for each in a user's words: other verbs, other nouns, plurals, and
// occasional typing errors. It is generated from tables and is always the same.
import type { JsonSchema, ToolDefinition } from "../../src/sandbox/contract/definition.ts";

/** How a service's tools are named. */
const STYLES = [
  (service: string, verb: string, object: string) => `${service}_${verb}_${object.replaceAll(" ", "_")}`,
  (service: string, verb: string, object: string) => `${service}.${object.replaceAll(" ", "_")}.${verb}`,
  (service: string, verb: string, object: string) =>
    `${service}${capital(verb)}${object.split(" ").map(capital).join("")}`,
  (service: string, verb: string, object: string) => `${verb}-${service}-${object.replaceAll(" ", "-")}`,
] as const;
const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** A name, how its documentation calls it, how a user does, and what it has: in the words of its documentation, and of users. */
const SERVICES: readonly (readonly [string, string, string, readonly (readonly [string, string])[]])[] = [
  [
    "gmail",
    "Gmail",
    "gmail",
    [
      ["message", "emails"],
      ["draft", "drafts"],
      ["label", "labels"],
      ["thread", "email thread"],
      ["filter", "mail filters"],
    ],
  ],
  [
    "slack",
    "Slack",
    "slack",
    [
      ["message", "messages"],
      ["channel", "channels"],
      ["reaction", "emoji reactions"],
      ["reminder", "reminders"],
      ["user group", "user groups"],
    ],
  ],
  [
    "github",
    "GitHub",
    "github",
    [
      ["issue", "issues"],
      ["pull request", "pull requests"],
      ["repository", "repo"],
      ["release", "releases"],
      ["branch", "branches"],
    ],
  ],
  [
    "gitlab",
    "GitLab",
    "gitlab",
    [
      ["issue", "issues"],
      ["merge request", "merge requests"],
      ["pipeline", "pipelines"],
      ["project", "projects"],
      ["runner", "runners"],
    ],
  ],
  [
    "jira",
    "Jira",
    "jira",
    [
      ["ticket", "tickets"],
      ["sprint", "sprints"],
      ["board", "boards"],
      ["epic", "epics"],
      ["worklog", "work logs"],
    ],
  ],
  [
    "stripe",
    "Stripe",
    "stripe",
    [
      ["payment", "payments"],
      ["customer", "customers"],
      ["subscription", "subscriptions"],
      ["refund", "refunds"],
      ["coupon", "coupons"],
    ],
  ],
  [
    "shopify",
    "Shopify",
    "shopify",
    [
      ["product", "products"],
      ["order", "orders"],
      ["inventory level", "inventory"],
      ["discount code", "discounts"],
      ["collection", "collections"],
    ],
  ],
  [
    "salesforce",
    "Salesforce",
    "salesforce",
    [
      ["lead", "leads"],
      ["opportunity", "opportunities"],
      ["account", "accounts"],
      ["contact", "contacts"],
      ["case", "support cases"],
    ],
  ],
  [
    "hubspot",
    "HubSpot",
    "hubspot",
    [
      ["deal", "deals"],
      ["company", "companies"],
      ["contact", "contacts"],
      ["form", "forms"],
      ["campaign", "campaigns"],
    ],
  ],
  [
    "notion",
    "Notion",
    "notion",
    [
      ["page", "pages"],
      ["database", "databases"],
      ["block", "blocks"],
      ["comment", "comments"],
      ["template", "templates"],
    ],
  ],
  [
    "google_calendar",
    "Google Calendar",
    "calendar",
    [
      ["event", "events"],
      ["attendee", "attendees"],
      ["calendar", "calendars"],
      ["availability", "free time"],
      ["recurrence", "recurring events"],
    ],
  ],
  [
    "google_drive",
    "Google Drive",
    "drive",
    [
      ["file", "files"],
      ["folder", "folders"],
      ["permission", "permissions"],
      ["revision", "revisions"],
      ["shared drive", "shared drives"],
    ],
  ],
  [
    "aws_s3",
    "Amazon S3",
    "s3",
    [
      ["bucket", "buckets"],
      ["object", "objects"],
      ["bucket policy", "bucket policies"],
      ["multipart upload", "multipart uploads"],
      ["lifecycle rule", "lifecycle rules"],
    ],
  ],
  [
    "aws_ec2",
    "Amazon EC2",
    "ec2",
    [
      ["instance", "instances"],
      ["security group", "security groups"],
      ["volume", "volumes"],
      ["snapshot", "snapshots"],
      ["key pair", "key pairs"],
    ],
  ],
  [
    "kubernetes",
    "Kubernetes",
    "kubernetes",
    [
      ["pod", "pods"],
      ["deployment", "deployments"],
      ["namespace", "namespaces"],
      ["config map", "config maps"],
      ["ingress", "ingresses"],
    ],
  ],
  [
    "docker",
    "Docker",
    "docker",
    [
      ["container", "containers"],
      ["image", "images"],
      ["network", "networks"],
      ["volume", "volumes"],
      ["registry", "registries"],
    ],
  ],
  [
    "zendesk",
    "Zendesk",
    "zendesk",
    [
      ["ticket", "tickets"],
      ["macro", "macros"],
      ["organization", "organizations"],
      ["satisfaction rating", "satisfaction ratings"],
      ["view", "views"],
    ],
  ],
  [
    "trello",
    "Trello",
    "trello",
    [
      ["card", "cards"],
      ["board", "boards"],
      ["list", "lists"],
      ["checklist", "checklists"],
      ["attachment", "attachments"],
    ],
  ],
  [
    "spotify",
    "Spotify",
    "spotify",
    [
      ["playlist", "playlists"],
      ["track", "songs track"],
      ["album", "albums"],
      ["podcast episode", "podcast episodes"],
      ["queue", "queue"],
    ],
  ],
  [
    "weather",
    "the weather service",
    "weather",
    [
      ["forecast", "forecasts"],
      ["alert", "alerts"],
      ["station", "stations"],
      ["historical observation", "historical observations"],
      ["radar image", "radar images"],
    ],
  ],
];

/** A verb as names have it, as documentation has it, as users say it. */
const VERBS: readonly (readonly [string, string, readonly string[]])[] = [
  ["create", "Creates a new", ["make a new", "add a", "create"]],
  ["get", "Retrieves a single", ["show me the", "fetch the", "look up the"]],
  ["list", "Lists every", ["list all", "give me all the", "find my"]],
  ["update", "Updates an existing", ["change the", "edit the", "update"]],
  ["delete", "Permanently removes a", ["delete the", "get rid of the", "remove"]],
  ["search", "Searches by keyword for a", ["search for", "find the", "look for"]],
  ["archive", "Archives a", ["archive the", "put away in the archive the", "archive"]],
  ["share", "Shares with other people a", ["share the", "give my colleague access to the", "share"]],
  ["export", "Exports to a file a", ["export the", "download as csv the", "save to a file the"]],
  ["copy", "Duplicates a", ["duplicate the", "copy the", "make a copy of the"]],
];
const TAILS = [
  "",
  " please",
  " for the Basel team",
  ", the one from yesterday",
  " called Apollo",
  " before noon",
] as const;
const LEADS = ["", "Could you ", "I need to ", "hey, ", "Can you please "] as const;

export interface CatalogCase {
  readonly request: string;
  readonly toolName: string;
}

/** Two letters of its longest word change places. */
function slip(text: string): string {
  const longest = text.split(" ").reduce((a, b) => (b.length > a.length ? b : a), "");
  if (longest.length < 7) return text;
  const slipped = `${longest.slice(0, 4)}${longest[5]}${longest[4]}${longest.slice(6)}`;
  return text.replace(longest, slipped);
}

function toSchema(object: string): JsonSchema {
  const id = `${object.replaceAll(" ", "_")}_id`;
  return {
    type: "object",
    properties: {
      [id]: { type: "string", description: `Which ${object} it is about` },
      fields: { type: "array", items: { type: "string" }, description: "Fields to return" },
      limit: { type: "integer", description: "How many at most" },
    },
  };
}

export function makeCatalog(): {
  readonly definitions: readonly ToolDefinition[];
  readonly cases: readonly CatalogCase[];
} {
  const definitions: ToolDefinition[] = [];
  const cases: CatalogCase[] = [];
  for (const [serviceIndex, [service, title, said, objects]] of SERVICES.entries()) {
    const style = STYLES[serviceIndex % STYLES.length] as (typeof STYLES)[number];
    for (const [object, saidObject] of objects) {
      for (const [verb, documented, saidVerbs] of VERBS) {
        const index = definitions.length;
        const name = style(service, verb, object);
        const description = `${documented} ${object} in ${title}. Needs a connected account; returns what was changed, with its ids.`;
        definitions.push({ name, description, inputSchema: toSchema(object) });
        const saidVerb = saidVerbs[index % saidVerbs.length] ?? verb;
        const plain = `${LEADS[index % LEADS.length]}${saidVerb} ${saidObject} in ${said}${TAILS[index % TAILS.length]}`;
        cases.push({ request: index % 7 === 0 ? slip(plain) : plain, toolName: name });
      }
    }
  }
  return { definitions, cases };
}
