import type { JsonValue } from '../../../src/model/json.ts';
import { grantedScope } from './access.ts';
import { type Answer, type ApiRequest, RefusedRequest, json, nothing } from './answer.ts';
import { checkJson } from './record-routes.ts';
import { EVENT_KINDS, recordIn } from '../../../src/sandbox/records/record-changes.ts';
import type { Handler, Service } from './route-context.ts';
import type { Subscription } from '../../../src/sandbox/webhooks.ts';

const NO_STORE = { 'cache-control': 'no-store' };

/** POST /oauth/token: client credentials (RFC 6749 4.4); the client proves itself in the form or by Basic. */
export const issueToken: Handler = async (service, request) => {
  const type = request.headers['content-type'] ?? '';
  if (!type.startsWith('application/x-www-form-urlencoded')) {
    throw new RefusedRequest(415, 'Send the form as application/x-www-form-urlencoded.');
  }
  const form = new URLSearchParams(new TextDecoder().decode(await request.body()));
  if (!isClient(service, request, form)) return oauthError(401, 'invalid_client', { 'www-authenticate': 'Basic' });
  if (form.get('grant_type') !== 'client_credentials') return oauthError(400, 'unsupported_grant_type');
  const scope = grantedScope(form.get('scope'));
  return scope === null ? oauthError(400, 'invalid_scope') : json(200, service.access.issue(scope), NO_STORE);
};

/** POST /v1/webhooks: `{ url, events, secret }`; the only answer that shows the secret, which is made up if not given. */
export const subscribe: Handler = async (service, request) => {
  checkJson(request);
  const { url, events, secret } = recordIn(await request.body());
  if (!isWebAddress(url)) throw new RefusedRequest(422, '"url" must be an http or https address.');
  if (!isListOfNames(events))
    throw new RefusedRequest(422, '"events" must be a list such as ["content.updated", "images.*"].');
  if (!isSecret(secret)) throw new RefusedRequest(422, '"secret" must be "whsec_" and the base64 of 24 to 64 bytes.');
  return json(201, service.webhooks.subscribe(url, events ?? ['*'], secret));
};

/** GET /v1/webhooks */
export const listSubscriptions: Handler = (service) => json(200, { data: service.webhooks.list().map(shown) });

/** GET /v1/webhooks/{id} */
export const readSubscription: Handler = (service, { params }) => {
  const found = service.webhooks.list().find(({ id }) => id === params['id']);
  if (found === undefined) throw new RefusedRequest(404, 'There is no such webhook subscription.');
  return json(200, shown(found));
};

/** DELETE /v1/webhooks/{id}: also drops what was not delivered yet. */
export const unsubscribe: Handler = (service, { params }) => {
  if (!service.webhooks.remove(params['id'] ?? ''))
    throw new RefusedRequest(404, 'There is no such webhook subscription.');
  return nothing();
};

function shown({ id, url, events, created_at }: Subscription): Omit<Subscription, 'secret'> {
  return { id, url, events, created_at };
}

function isClient(service: Service, request: ApiRequest, form: URLSearchParams): boolean {
  const basic = /^basic +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (basic === undefined) return service.access.isClient(form.get('client_id') ?? '', form.get('client_secret') ?? '');
  const [id = '', secret = ''] = Buffer.from(basic, 'base64')
    .toString()
    .split(/:([^]*)/);
  return service.access.isClient(formDecoded(id), formDecoded(secret));
}

/** RFC 6749 2.3.1: id and secret are form-encoded before they become Basic credentials. */
function formDecoded(text: string): string {
  return new URLSearchParams(`v=${text.replaceAll('&', '%26')}`).get('v') ?? '';
}

function oauthError(status: number, error: string, headers: Record<string, string> = {}): Answer {
  return json(status, { error }, { ...NO_STORE, ...headers });
}

function isWebAddress(value: JsonValue | undefined): value is string {
  return typeof value === 'string' && ['http:', 'https:'].includes(URL.parse(value)?.protocol ?? '');
}

function isSecret(value: JsonValue | undefined): value is string | undefined {
  const [, key] = typeof value === 'string' ? (/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value) ?? []) : [];
  const bytes = Buffer.from(key ?? '', 'base64').length;
  return value === undefined || (bytes >= 24 && bytes <= 64);
}

function isListOfNames(value: JsonValue | undefined): value is string[] | undefined {
  return value === undefined || (Array.isArray(value) && value.length > 0 && value.every(isName));
}

function isName(value: JsonValue): boolean {
  if (value === '*') return true;
  const [, kind] = typeof value === 'string' ? (/^[a-z][\w-]*\.(\*|\w+)$/.exec(value) ?? []) : [];
  return kind === '*' || EVENT_KINDS.some((known) => known === kind);
}
