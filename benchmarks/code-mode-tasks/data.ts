// The data of the code-mode benchmark: one company, made from a fixed seed, so that every run has the same answers.

/** Returns numbers from 0 to 1, the same for the same seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const random = createRandom(42);
const int = (max: number): number => Math.floor(random() * max);
const pick = <Item>(items: readonly Item[]): Item => items[int(items.length)] as Item;
const day = (): string => `2026-${String(1 + int(6)).padStart(2, "0")}-${String(1 + int(28)).padStart(2, "0")}`;
const many = <Item>(count: number, create: (index: number) => Item): readonly Item[] =>
  Array.from({ length: count }, (_, index) => create(index));

const FIRST = ["Ada", "Ben", "Chloe", "David", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Liam"];
const LAST = ["Novak", "Meyer", "Rossi", "Silva", "Tanaka", "Okafor", "Larsen", "Dubois"];
export const CITIES = ["Berlin", "Paris", "Madrid", "Oslo", "Rome", "Vienna", "Lisbon", "Dublin"] as const;
export const SEGMENTS = ["enterprise", "startup", "public"] as const;

export const employees = many(24, (id) => ({
  id: `E${id + 1}`,
  name: `${FIRST[id % 12]} ${pick(LAST)}`,
  team: pick(["sales", "support", "engineering", "finance"]),
  city: pick(CITIES),
  managerId: id < 4 ? null : `E${1 + int(4)}`,
  vacationDaysLeft: int(25),
  salary: 42_000 + int(40) * 1_000,
}));
export const customers = many(40, (id) => ({
  id: `C${id + 1}`,
  name: `${pick(LAST)} ${pick(["Labs", "Foods", "Systems", "Travel", "Energy"])} ${id + 1}`,
  city: pick(CITIES),
  segment: pick(SEGMENTS),
  ownerId: pick(employees).id,
  email: `contact@c${id + 1}.example`,
}));
export const products = many(24, (id) => ({
  sku: `P${id + 1}`,
  name: `${pick(["Sensor", "Valve", "Panel", "Cable", "Pump"])} ${id + 1}`,
  price: 5 + int(200),
  stock: int(120),
  reorderLevel: 20 + int(20),
  supplier: pick(["Nordic Parts", "Alpina", "Iberia Supply"]),
}));
export const orders = many(220, (id) => ({
  id: `O${id + 1}`,
  customerId: pick(customers).id,
  date: day(),
  status: pick(["open", "shipped", "delivered", "returned"]),
  lines: many(1 + int(3), () => ({ sku: pick(products).sku, quantity: 1 + int(9) })),
}));
export const tickets = many(90, (id) => ({
  id: `T${id + 1}`,
  customerId: pick(customers).id,
  subject: `${pick(["Late delivery", "Broken part", "Wrong invoice", "Login problem"])} ${id + 1}`,
  status: pick(["open", "waiting", "closed"]),
  priority: pick(["low", "normal", "high"]),
  assigneeId: pick(employees).id,
  openedAt: day(),
}));
export const invoices = many(120, (id) => ({
  id: `I${id + 1}`,
  customerId: pick(customers).id,
  issuedAt: day(),
  amount: 100 + int(5_000),
  currency: pick(["EUR", "USD", "GBP"]),
  status: pick(["paid", "unpaid", "overdue"]),
}));
export const events = many(70, (id) => ({
  id: `V${id + 1}`,
  title: `${pick(["Review", "Planning", "Call", "Workshop"])} ${id + 1}`,
  date: day(),
  startHour: 8 + int(9),
  durationMinutes: pick([30, 60, 90]),
  attendeeIds: many(1 + int(4), () => pick(employees).id),
}));
export const files = many(30, (id) => ({
  path: `/${pick(["contracts", "reports", "images"])}/file-${id + 1}.txt`,
  bytes: 500 + int(90_000),
  modifiedAt: day(),
  text: `Report ${id + 1}. Total: ${int(1_000)} EUR. ${"Lorem ipsum dolor sit amet. ".repeat(3 + int(20))}`,
}));
export const expenses = many(100, (id) => ({
  id: `X${id + 1}`,
  employeeId: pick(employees).id,
  category: pick(["travel", "meals", "software"]),
  amount: 10 + int(900),
  date: day(),
  approved: random() < 0.6,
}));
export const weather = CITIES.flatMap((city) =>
  many(7, (index) => ({
    city,
    date: `2026-06-${String(index + 1).padStart(2, "0")}`,
    highC: 12 + int(20),
    lowC: 2 + int(10),
    rainMm: int(20),
  })),
);
/** Value of one unit in EUR. */
export const rates: Readonly<Record<string, number>> = { EUR: 1, USD: 0.9, GBP: 1.2 };
export const messages = many(60, (id) => ({
  id: `M${id + 1}`,
  from: pick(customers).email,
  subject: `Question ${id + 1}`,
  receivedAt: day(),
  isRead: random() < 0.5,
  body: `Hello, ${"we have a question about our last order and would like to hear from you soon. ".repeat(1 + int(4))}`,
}));
