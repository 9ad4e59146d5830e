// The 64 tools of the code-mode benchmark: what a company's assistant has, with input and output schemas as such tools declare them.
import type { JsonSchema } from "../../src/sandbox/contract/definition.ts";
import * as data from "./data.ts";

type Input = Readonly<Record<string, never>>;
export interface BenchmarkTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
  readonly run: (input: Input) => unknown;
}

/** Infers the schema of a value, with descriptions by property. */
function schemaOf(value: unknown): JsonSchema {
  if (value === null) return { type: ["string", "null"] };
  if (Array.isArray(value)) return { type: "array", items: value.length === 0 ? {} : schemaOf(value[0]) };
  if (typeof value !== "object") return { type: typeof value };
  const properties = Object.fromEntries(Object.entries(value as object).map(([key, one]) => [key, schemaOf(one)]));
  return { type: "object", properties, required: Object.keys(properties) };
}

const text = (description: string): JsonSchema => ({ type: "string", description });
const number = (description: string): JsonSchema => ({ type: "number", description });
const choice = (values: readonly string[], description: string): JsonSchema => ({
  type: "string",
  enum: [...values],
  description,
});

const input = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = Object.keys(properties),
): JsonSchema => ({ type: "object", properties, required: [...required], additionalProperties: false }) as JsonSchema;

function find<Item>(items: readonly Item[], fits: (item: Item) => boolean, what: string): Item {
  const found = items.find(fits);
  if (found === undefined) throw new Error(`There is no such ${what}`);
  return found;
}
const same = <Item extends object>(items: readonly Item[], filter: Input): readonly Item[] =>
  items.filter((item) =>
    Object.entries(filter).every(([key, value]) => (item as Record<string, unknown>)[key] === value),
  );
const inRange = <Item>(
  items: readonly Item[],
  dateOf: (item: Item) => string,
  { from = "", to = "9999" }: { readonly from?: string; readonly to?: string },
) => items.filter((item) => dateOf(item) >= from && dateOf(item) <= to);

const FROM_TO = { from: text("First day, as 2026-05-01"), to: text("Last day, as 2026-05-31") };
const { customers, orders, products, tickets, invoices, employees, events, files, expenses, weather, messages, rates } =
  data;
const [customer, order, product, ticket, invoice] = [customers[0], orders[0], products[0], tickets[0], invoices[0]];
const [employee, event, expense, message, forecast] = [employees[0], events[0], expenses[0], messages[0], weather[0]];
const STATUS = {
  order: ["open", "shipped", "delivered", "returned"],
  ticket: ["open", "waiting", "closed"],
  invoice: ["paid", "unpaid", "overdue"],
};
const done = { ok: true };
const totalOf = ({ lines }: (typeof orders)[number]): number =>
  lines.reduce(
    (sum, { sku, quantity }) => sum + quantity * find(products, (one) => one.sku === sku, "product").price,
    0,
  );

type Row = readonly [
  name: string,
  description: string,
  input: JsonSchema,
  output: unknown,
  run: (input: never) => unknown,
];

const ROWS: readonly Row[] = [
  [
    "crm_list_customers",
    "Lists customers, optionally of one city or one segment",
    input({ city: choice(data.CITIES, "City"), segment: choice(data.SEGMENTS, "Segment") }, []),
    [customer],
    (filter) => same(customers, filter),
  ],
  [
    "crm_get_customer",
    "Returns one customer by its id",
    input({ id: text("Id of the customer, as C12") }),
    customer,
    ({ id }: { id: string }) => find(customers, (one) => one.id === id, "customer"),
  ],
  [
    "crm_search_customers",
    "Finds customers by a part of their name",
    input({ name: text("Part of the name") }),
    [customer],
    ({ name }: { name: string }) => customers.filter((one) => one.name.toLowerCase().includes(name.toLowerCase())),
  ],
  [
    "crm_update_owner",
    "Assigns a customer to an employee",
    input({ id: text("Id of the customer"), ownerId: text("Id of the employee") }),
    done,
    () => done,
  ],
  [
    "crm_add_note",
    "Adds a note to a customer",
    input({ id: text("Id of the customer"), note: text("Text of the note") }),
    done,
    () => done,
  ],
  [
    "crm_list_customers_of_owner",
    "Lists the customers that an employee looks after",
    input({ ownerId: text("Id of the employee") }),
    [customer],
    (filter) => same(customers, filter),
  ],
  [
    "crm_count_by_segment",
    "Counts the customers of each segment",
    input({}),
    { enterprise: 1, startup: 1, public: 1 },
    () =>
      Object.fromEntries(
        data.SEGMENTS.map((segment) => [segment, customers.filter((one) => one.segment === segment).length]),
      ),
  ],
  [
    "orders_list",
    "Lists orders of a time, newest last",
    input({ ...FROM_TO, status: choice(STATUS.order, "State") }, []),
    [order],
    ({ status, ...range }: { status?: string }) =>
      inRange(orders, (one) => one.date, range).filter((one) => status === undefined || one.status === status),
  ],
  [
    "orders_get",
    "Returns one order with its lines",
    input({ id: text("Id of the order, as O12") }),
    order,
    ({ id }: { id: string }) => find(orders, (one) => one.id === id, "order"),
  ],
  [
    "orders_of_customer",
    "Lists the orders of a customer",
    input({ customerId: text("Id of the customer") }),
    [order],
    (filter) => same(orders, filter),
  ],
  [
    "orders_total",
    "Returns the total price of an order in EUR",
    input({ id: text("Id of the order") }),
    { total: 1 },
    ({ id }: { id: string }) => ({ total: totalOf(find(orders, (one) => one.id === id, "order")) }),
  ],
  [
    "orders_cancel",
    "Cancels an open order",
    input({ id: text("Id of the order"), reason: text("Why it is cancelled") }),
    done,
    () => done,
  ],
  [
    "orders_refund",
    "Refunds an amount of an order",
    input({ id: text("Id of the order"), amount: number("Amount in EUR") }),
    done,
    () => done,
  ],
  [
    "orders_track",
    "Returns where the parcel of an order is",
    input({ id: text("Id of the order") }),
    { status: "", location: "" },
    ({ id }: { id: string }) => ({ status: find(orders, (one) => one.id === id, "order").status, location: "Hub" }),
  ],
  [
    "inventory_list_products",
    "Lists all products with price and stock",
    input({ supplier: text("Name of the supplier") }, []),
    [product],
    (filter) => same(products, filter),
  ],
  [
    "inventory_get_product",
    "Returns one product by its SKU",
    input({ sku: text("SKU, as P12") }),
    product,
    ({ sku }: { sku: string }) => find(products, (one) => one.sku === sku, "product"),
  ],
  [
    "inventory_adjust_stock",
    "Changes the stock of a product",
    input({ sku: text("SKU"), by: number("Change, negative to remove") }),
    done,
    () => done,
  ],
  [
    "inventory_reorder",
    "Orders more of a product from its supplier",
    input({ sku: text("SKU"), quantity: number("How many") }),
    done,
    () => done,
  ],
  [
    "inventory_suppliers",
    "Lists the suppliers",
    input({}),
    [""],
    () => [...new Set(products.map(({ supplier }) => supplier))],
  ],
  [
    "inventory_reserve",
    "Reserves stock for an order",
    input({ sku: text("SKU"), orderId: text("Id of the order"), quantity: number("How many") }),
    done,
    () => done,
  ],
  [
    "tickets_list",
    "Lists support tickets by state and priority",
    input({ status: choice(STATUS.ticket, "State"), priority: choice(["low", "normal", "high"], "Priority") }, []),
    [ticket],
    (filter) => same(tickets, filter),
  ],
  [
    "tickets_get",
    "Returns one support ticket",
    input({ id: text("Id of the ticket, as T12") }),
    ticket,
    ({ id }: { id: string }) => find(tickets, (one) => one.id === id, "ticket"),
  ],
  [
    "tickets_of_customer",
    "Lists the support tickets of a customer",
    input({ customerId: text("Id of the customer") }),
    [ticket],
    (filter) => same(tickets, filter),
  ],
  [
    "tickets_assign",
    "Assigns a ticket to an employee",
    input({ id: text("Id of the ticket"), assigneeId: text("Id of the employee") }),
    done,
    () => done,
  ],
  [
    "tickets_reply",
    "Sends a reply to the customer of a ticket",
    input({ id: text("Id of the ticket"), text: text("The reply") }),
    done,
    () => done,
  ],
  ["tickets_close", "Closes a ticket", input({ id: text("Id of the ticket") }), done, () => done],
  [
    "tickets_set_priority",
    "Changes the priority of a ticket",
    input({ id: text("Id of the ticket"), priority: choice(["low", "normal", "high"], "Priority") }),
    done,
    () => done,
  ],
  [
    "tickets_of_assignee",
    "Lists the tickets that an employee works on",
    input({ assigneeId: text("Id of the employee") }),
    [ticket],
    (filter) => same(tickets, filter),
  ],
  [
    "finance_list_invoices",
    "Lists invoices by state",
    input({ status: choice(STATUS.invoice, "State"), ...FROM_TO }, []),
    [invoice],
    ({ status, ...range }: { status?: string }) =>
      inRange(invoices, (one) => one.issuedAt, range).filter((one) => status === undefined || one.status === status),
  ],
  [
    "finance_get_invoice",
    "Returns one invoice",
    input({ id: text("Id of the invoice, as I12") }),
    invoice,
    ({ id }: { id: string }) => find(invoices, (one) => one.id === id, "invoice"),
  ],
  [
    "finance_invoices_of_customer",
    "Lists the invoices of a customer",
    input({ customerId: text("Id of the customer") }),
    [invoice],
    (filter) => same(invoices, filter),
  ],
  [
    "finance_exchange_rate",
    "Returns what one unit of a currency is worth in EUR",
    input({ currency: choice(Object.keys(rates), "Currency") }),
    { rate: 1 },
    ({ currency }: { currency: string }) => ({ rate: rates[currency] }),
  ],
  [
    "finance_send_reminder",
    "Sends a reminder for an unpaid invoice",
    input({ id: text("Id of the invoice") }),
    done,
    () => done,
  ],
  ["finance_mark_paid", "Marks an invoice as paid", input({ id: text("Id of the invoice") }), done, () => done],
  [
    "finance_create_invoice",
    "Creates an invoice",
    input({
      customerId: text("Id of the customer"),
      amount: number("Amount"),
      currency: choice(Object.keys(rates), "Currency"),
    }),
    { id: "" },
    () => ({ id: "I999" }),
  ],
  [
    "finance_tax_rate",
    "Returns the tax rate of a country",
    input({ country: text("Two letters") }),
    { percent: 1 },
    () => ({ percent: 19 }),
  ],
  [
    "hr_list_employees",
    "Lists employees, optionally of one team",
    input({ team: choice(["sales", "support", "engineering", "finance"], "Team") }, []),
    [{ ...employee, managerId: null }],
    (filter) => same(employees, filter),
  ],
  [
    "hr_get_employee",
    "Returns one employee",
    input({ id: text("Id of the employee, as E12") }),
    { ...employee, managerId: null },
    ({ id }: { id: string }) => find(employees, (one) => one.id === id, "employee"),
  ],
  [
    "hr_reports_of",
    "Lists the employees whose manager is this one",
    input({ managerId: text("Id of the manager") }),
    [{ ...employee, managerId: null }],
    (filter) => same(employees, filter),
  ],
  [
    "hr_list_expenses",
    "Lists expenses of an employee",
    input({ employeeId: text("Id of the employee") }),
    [expense],
    (filter) => same(expenses, filter),
  ],
  ["hr_approve_expense", "Approves an expense", input({ id: text("Id of the expense") }), done, () => done],
  [
    "hr_request_vacation",
    "Requests vacation for an employee",
    input({ employeeId: text("Id of the employee"), ...FROM_TO }),
    done,
    () => done,
  ],
  [
    "calendar_list_events",
    "Lists all events of a time",
    input(FROM_TO),
    [event],
    (range) => inRange(events, (one) => one.date, range),
  ],
  [
    "calendar_events_of",
    "Lists the events that an employee attends",
    input({ employeeId: text("Id of the employee") }),
    [event],
    ({ employeeId }: { employeeId: string }) => events.filter((one) => one.attendeeIds.includes(employeeId)),
  ],
  [
    "calendar_create_event",
    "Creates an event",
    input({
      title: text("Title"),
      date: text("Day"),
      startHour: number("Hour"),
      attendeeIds: { type: "array", items: { type: "string" } },
    }),
    { id: "" },
    () => ({ id: "V999" }),
  ],
  [
    "calendar_move_event",
    "Moves an event to another day",
    input({ id: text("Id of the event"), date: text("Day") }),
    done,
    () => done,
  ],
  ["calendar_cancel_event", "Cancels an event", input({ id: text("Id of the event") }), done, () => done],
  [
    "calendar_free_rooms",
    "Lists the rooms that are free",
    input({ date: text("Day"), hour: number("Hour") }),
    [""],
    () => ["Ada", "Babbage"],
  ],
  [
    "files_list",
    "Lists the files of a folder",
    input({ folder: choice(["contracts", "reports", "images"], "Folder") }),
    [{ path: "", bytes: 1, modifiedAt: "" }],
    ({ folder }: { folder: string }) =>
      files.filter(({ path }) => path.startsWith(`/${folder}/`)).map(({ text: _text, ...shown }) => shown),
  ],
  [
    "files_read",
    "Returns the text of a file",
    input({ path: text("Path of the file") }),
    { text: "" },
    ({ path }: { path: string }) => ({ text: find(files, (one) => one.path === path, "file").text }),
  ],
  ["files_write", "Writes a file", input({ path: text("Path"), text: text("Content") }), done, () => done],
  ["files_delete", "Deletes a file", input({ path: text("Path") }), done, () => done],
  [
    "files_share",
    "Shares a file with an employee",
    input({ path: text("Path"), employeeId: text("Id of the employee") }),
    { url: "" },
    () => ({ url: "https://files.example/x" }),
  ],
  [
    "mail_list",
    "Lists messages of the inbox",
    input({ unreadOnly: { type: "boolean", description: "Only unread ones" } }, []),
    [{ ...message, body: "" }],
    ({ unreadOnly }: { unreadOnly?: boolean }) => messages.filter((one) => unreadOnly !== true || !one.isRead),
  ],
  [
    "mail_get",
    "Returns one message",
    input({ id: text("Id of the message") }),
    message,
    ({ id }: { id: string }) => find(messages, (one) => one.id === id, "message"),
  ],
  [
    "mail_send",
    "Sends a message",
    input({ to: text("Address"), subject: text("Subject"), body: text("Text") }),
    done,
    () => done,
  ],
  ["mail_archive", "Archives a message", input({ id: text("Id of the message") }), done, () => done],
  [
    "weather_forecast",
    "Returns the forecast of a city for the first week of June",
    input({ city: choice(data.CITIES, "City") }),
    [forecast],
    (filter) => same(weather, filter),
  ],
  ["weather_cities", "Lists the cities with forecasts", input({}), [""], () => [...data.CITIES]],
  [
    "weather_alerts",
    "Lists weather warnings of a city",
    input({ city: choice(data.CITIES, "City") }),
    [{ level: "", text: "" }],
    () => [],
  ],
  [
    "travel_distance",
    "Returns the distance between two cities in km",
    input({ from: choice(data.CITIES, "City"), to: choice(data.CITIES, "City") }),
    { km: 1 },
    ({ from, to }: { from: string; to: string }) => ({
      km: Math.abs(data.CITIES.indexOf(from as never) - data.CITIES.indexOf(to as never)) * 480,
    }),
  ],
  [
    "travel_book_train",
    "Books a train",
    input({ employeeId: text("Id of the employee"), from: text("City"), to: text("City"), date: text("Day") }),
    { booking: "" },
    () => ({ booking: "B1" }),
  ],
  [
    "travel_book_hotel",
    "Books a hotel",
    input({ employeeId: text("Id of the employee"), city: text("City"), ...FROM_TO }),
    { booking: "" },
    () => ({ booking: "B2" }),
  ],
  [
    "chat_post",
    "Posts a message in a channel",
    input({ channel: text("Channel"), text: text("Text") }),
    done,
    () => done,
  ],
];

export const tools: readonly BenchmarkTool[] = ROWS.map(([name, description, inputSchema, output, run]) => ({
  name,
  description,
  inputSchema,
  outputSchema: schemaOf(output),
  run: run as BenchmarkTool["run"],
}));
