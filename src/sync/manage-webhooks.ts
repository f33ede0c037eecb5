import { singleRequest, type ListingTarget } from '../extract/page-styles/listing-request.ts';
import { newMeter, type ApiClient, type ApiRequest, type HttpMethod } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { fieldAt, isObject } from '../shape/records/field-at.ts';
import { recordKey } from '../shape/records/record-key.ts';
import { isPerEvent, type WebhookManagement } from '../source/webhook-manage.ts';

/** What managing the webhooks of one source needs. */
export interface ManagingContext {
  client: ApiClient;
  listing: ListingTarget;
  manage: WebhookManagement;
  /** Address at which the service sees the receiver. */
  url: URL;
  signal: AbortSignal;
}

/** A webhook that the service has. */
export interface ListedWebhook {
  id: string | null;
  address: string;
  /** Null if it is for several, or the service does not say. */
  event: string | null;
  /** True if it leads to our address. */
  isOurs: boolean;
}

/** One webhook that is to be there, and whether it is. */
export interface WantedWebhook {
  /** Null: it is for all events of the profile. */
  event: string | null;
  /** The id of the one that is there already; null if none is, or the service does not list them. */
  there: string | null;
  isThere: boolean;
}

/** Null if the profile has no list. Throws what asking throws, and `bad_page` if the answer holds no list. */
export async function listWebhooks(context: ManagingContext): Promise<ListedWebhook[] | null> {
  const { list } = context.manage;
  if (list === null) return null;
  const { json } = await ask(context, 'GET', list, {});
  const found = fieldAt(json, list.records);
  if (Array.isArray(found)) return found.map((record) => listed(record, list, context.url));
  throw new SyncError('bad_page', `the answer of ${list.path} has no list of webhooks at "${list.records}"`, {
    recovery: 'stop',
    hint: 'compare webhooks.manage.list.records in the profile with an answer of the service',
  });
}

/** The webhooks that are to be there, by what the service lists. */
export function wantedWebhooks(manage: WebhookManagement, there: readonly ListedWebhook[] | null): WantedWebhook[] {
  const ours = (there ?? []).filter(({ isOurs }) => isOurs);
  const events = isPerEvent(manage) ? manage.events : [null];
  return events.map((event) => {
    const found = ours.find((each) => event === null || each.event === event);
    return { event, there: found?.id ?? null, isThere: found !== undefined };
  });
}

/** Makes one webhook. `there`: the service says that it has it already. `secret` is null if there is none. */
export async function makeWebhook(
  context: ManagingContext,
  { event }: Pick<WantedWebhook, 'event'>,
  secret: string | null,
): Promise<'made' | 'there'> {
  const { create, events } = context.manage;
  const values = { event, secret, url: context.url.href, events: events.length === 0 ? null : events.join(',') };
  const body = withEvents(create.body, events);
  const templates = { ...create, body: isObject(body) ? body : null };
  const isGone: ApiRequest['isGone'] = ({ status }) => create.exists.includes(status);
  const { outcome } = await ask(context, create.method, templates, values, { isGone });
  return outcome === 'ok' ? 'made' : 'there';
}

/** Removes one webhook. `gone`: the service does not have it any more. */
export async function removeWebhook(
  context: ManagingContext,
  remove: NonNullable<WebhookManagement['remove']>,
  id: string,
): Promise<'removed' | 'gone'> {
  const { outcome } = await ask(context, remove.method, remove, { id }, { missing: 'skip' });
  return outcome === 'ok' ? 'removed' : 'gone';
}

interface Templates {
  path: string;
  query: Record<string, string>;
  body?: Record<string, JsonValue> | null;
}

function ask(
  { client, listing, signal }: ManagingContext,
  method: HttpMethod,
  { path, query, body = null }: Templates,
  values: Readonly<Record<string, string | null>>,
  further: Partial<ApiRequest> = {},
): ReturnType<ApiClient['get']> {
  const templates = { path, query, body, method: body === null ? ('GET' as const) : ('POST' as const) };
  const built = singleRequest({ target: listing, templates, values });
  const write = method !== 'GET';
  return client.get({ ...built, ...further, method, write, lane: 'incremental', meter: newMeter(), signal });
}

/** A text that is `{events}` and nothing else stands for the list. */
function withEvents(value: JsonValue, events: readonly string[]): JsonValue {
  if (value === '{events}' && events.length > 0) return [...events];
  if (Array.isArray(value)) return value.map((each) => withEvents(each, events));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withEvents(each, events)]));
}

function listed(record: JsonValue, list: NonNullable<WebhookManagement['list']>, ours: URL): ListedWebhook {
  const id = recordKey(record, list.id);
  const address = fieldAt(record, list.address);
  const event = list.event === null ? null : fieldAt(record, list.event);
  const text = typeof address === 'string' ? address : '';
  return {
    id: 'key' in id ? id.key : null,
    address: text,
    event: typeof event === 'string' ? event : null,
    isOurs: isSameAddress(text, ours),
  };
}

/** Without the query, which may hold a secret that was another one when the webhook was made; unless ours has one. */
function isSameAddress(text: string, ours: URL): boolean {
  const theirs = URL.parse(text);
  if (theirs === null || theirs.origin !== ours.origin || pathOf(theirs) !== pathOf(ours)) return false;
  return ours.search === '' || theirs.search === ours.search;
}

function pathOf({ pathname }: URL): string {
  return pathname.replace(/\/+$/, '');
}
