// A conversation's worth of tool calls, many times over: 14 tools of a shop's and an airline's desk, and 1,164 calls of them as models make
// them, of the number and kind that tau-bench records (Yao et al. 2024). Made here, always the same.
import * as z from "zod";
import type { JsonSchema } from "../../src/host/index.ts";

export interface RecordedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
}

export interface RecordedCall {
  readonly id: string;
  readonly toolName: string;
  readonly argumentsText: string;
}

const CALLS = 1_164;

/** Mulberry32: small, and the same everywhere. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (((mixed ^ (mixed >>> 14)) >>> 0) * below) / 2 ** 32 || 0;
  };
}

const random = createRandom(7);
const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random(items.length))] as Item;
const digits = (count: number): string => String(Math.floor(random(10 ** count))).padStart(count, "0");
const several = <Item>(make: () => Item, most: number): Item[] =>
  Array.from({ length: 1 + Math.floor(random(most)) }, make);

const OrderId = z.string().regex(/^#W\d{7}$/);
const ItemId = z.string().regex(/^\d{10}$/);
const PaymentId = z.string().regex(/^(?:card|gift|transfer)_\d{4,7}$/);
const Flight = z.strictObject({ number: z.string().regex(/^GB\d{3}$/), date: z.iso.date() });
const Passenger = z.strictObject({ firstName: z.string().min(1), lastName: z.string().min(1), born: z.iso.date() });
const Address = z.strictObject({
  line1: z.string().min(1),
  line2: z.string(),
  city: z.string().min(1),
  state: z.string().length(2),
  country: z.string().min(2),
  zip: z.string().regex(/^\d{5}$/),
});

const orderId = (): string => `#W${digits(7)}`;
const itemId = (): string => digits(10);
const paymentId = (): string => `${pick(["card", "gift", "transfer"])}_${digits(5)}`;
const userId = (): string =>
  `${pick(["ada", "grace", "alan", "edsger"])}_${pick(["lopez", "chen", "okafor"])}_${digits(4)}`;
const date = (): string => `2026-0${1 + Math.floor(random(9))}-${10 + Math.floor(random(18))}`;
const address = (): unknown => ({
  line1: `${1 + Math.floor(random(900))} Pine Lane`,
  line2: pick(["", "Suite 12"]),
  city: pick(["Austin", "Portland"]),
  state: pick(["TX", "OR"]),
  country: "USA",
  zip: digits(5),
});
const passenger = (): unknown => ({
  firstName: pick(["Ada", "Alan"]),
  lastName: pick(["Chen", "Lopez"]),
  born: `19${70 + Math.floor(random(29))}-04-12`,
});
const flight = (): unknown => ({ number: `GB${digits(3)}`, date: date() });

interface Sketch {
  readonly about: string;
  readonly input: z.ZodObject;
  readonly make: () => unknown;
}

const SKETCHES: { readonly [name: string]: Sketch } = {
  find_user_by_email: {
    about: "Finds a customer by email",
    input: z.strictObject({ email: z.email() }),
    make: () => ({ email: `${userId()}@example.com` }),
  },
  find_user_by_name_zip: {
    about: "Finds a customer by name and zip code",
    input: z.strictObject({ firstName: z.string(), lastName: z.string(), zip: z.string().regex(/^\d{5}$/) }),
    make: () => ({ firstName: "Ada", lastName: "Chen", zip: digits(5) }),
  },
  get_user_details: {
    about: "A customer's profile",
    input: z.strictObject({ userId: z.string() }),
    make: () => ({ userId: userId() }),
  },
  get_order_details: {
    about: "Status and items of an order",
    input: z.strictObject({ orderId: OrderId }),
    make: () => ({ orderId: orderId() }),
  },
  get_product_details: {
    about: "Variants of a product",
    input: z.strictObject({ productId: ItemId }),
    make: () => ({ productId: itemId() }),
  },
  list_product_types: { about: "All kinds of products", input: z.strictObject({}), make: () => ({}) },
  calculate: {
    about: "Computes an expression",
    input: z.strictObject({ expression: z.string().max(500) }),
    make: () => ({ expression: `${digits(3)} * 1.2 + ${digits(2)}` }),
  },
  cancel_pending_order: {
    about: "Cancels an order that has not been sent",
    input: z.strictObject({ orderId: OrderId, reason: z.enum(["no longer needed", "ordered by mistake"]) }),
    make: () => ({ orderId: orderId(), reason: pick(["no longer needed", "ordered by mistake"]) }),
  },
  exchange_delivered_items: {
    about: "Exchanges items of a delivered order",
    input: z.strictObject({
      orderId: OrderId,
      itemIds: z.array(ItemId).min(1),
      newItemIds: z.array(ItemId).min(1),
      paymentId: PaymentId,
    }),
    make: () => ({
      orderId: orderId(),
      itemIds: several(itemId, 4),
      newItemIds: several(itemId, 4),
      paymentId: paymentId(),
    }),
  },
  return_delivered_items: {
    about: "Takes items of a delivered order back",
    input: z.strictObject({ orderId: OrderId, itemIds: z.array(ItemId).min(1), paymentId: PaymentId }),
    make: () => ({ orderId: orderId(), itemIds: several(itemId, 4), paymentId: paymentId() }),
  },
  modify_order_address: {
    about: "Sends a pending order elsewhere",
    input: z.strictObject({ orderId: OrderId, address: Address }),
    make: () => ({ orderId: orderId(), address: address() }),
  },
  search_direct_flights: {
    about: "Flights between two airports on a day",
    input: z.strictObject({ origin: z.string().length(3), destination: z.string().length(3), date: z.iso.date() }),
    make: () => ({ origin: pick(["JFK", "SFO"]), destination: pick(["ATL", "ORD"]), date: date() }),
  },
  book_reservation: {
    about: "Books flights for passengers",
    input: z.strictObject({
      userId: z.string(),
      cabin: z.enum(["basic", "economy", "business"]),
      flights: z.array(Flight).min(1).max(4),
      passengers: z.array(Passenger).min(1).max(5),
      payments: z.array(z.strictObject({ paymentId: PaymentId, amount: z.number().min(0) })).min(1),
      bags: z.int().min(0).max(20),
      insurance: z.boolean(),
    }),
    make: () => ({
      userId: userId(),
      cabin: pick(["basic", "economy", "business"]),
      flights: several(flight, 4),
      passengers: several(passenger, 5),
      payments: [{ paymentId: paymentId(), amount: Math.floor(random(90_000)) / 100 }],
      bags: Math.floor(random(5)),
      insurance: random(2) > 1,
    }),
  },
  transfer_to_human: {
    about: "Hands the conversation to a person",
    input: z.strictObject({ summary: z.string().max(2_000) }),
    make: () => ({ summary: "The customer wants a refund to another card. ".repeat(3) }),
  },
};

export const RECORDED_TOOLS: readonly RecordedTool[] = Object.entries(SKETCHES).map(([name, { about, input }]) => ({
  name,
  description: about,
  inputSchema: z.toJSONSchema(input) as unknown as JsonSchema,
}));

export const RECORDED_CALLS: readonly RecordedCall[] = Array.from({ length: CALLS }, (_, index) => {
  const toolName = pick(Object.keys(SKETCHES));
  return { id: `call_${index}`, toolName, argumentsText: JSON.stringify((SKETCHES[toolName] as Sketch).make()) };
});
