/** Whom a request is for. */
export type Route =
  | { kind: 'webhook'; source: string }
  | { kind: 'health' }
  /** Made by the main thread; whether there is such a page is for it to say. */
  | { kind: 'page' }
  | { kind: 'none' };

const WEBHOOK = /^\/webhooks\/(?<source>[a-z][a-z0-9_-]{0,40})$/;
/** Nothing that a proxy and we might read differently: no escapes, no parameters, no empty or dotted segments. */
const PLAIN_PATH = /^\/$|^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,8}$/;

/** The route of a request target as it was sent; only its path decides. */
export function routeOf(target: string): Route {
  const [path = ''] = target.split('?', 1);
  const source = WEBHOOK.exec(path)?.groups?.['source'];
  if (source !== undefined) return { kind: 'webhook', source };
  if (!PLAIN_PATH.test(path) || path.startsWith('/webhooks')) return { kind: 'none' };
  return path === '/healthz' ? { kind: 'health' } : { kind: 'page' };
}
