import { TrieRouter } from 'hono/router/trie-router';
import { issueToken, listSubscriptions, readSubscription, subscribe, unsubscribe } from './account-routes.ts';
import { RefusedRequest } from './answer.ts';
import { readFile, writeFile } from './file-routes.ts';
import { createRecord, deleteRecord, listRecords, patchRecord, readRecord, replaceRecord } from './record-routes.ts';
import type { Handler } from './route-context.ts';

/** Every endpoint; the first that fits a path is taken. */
const ROUTES: readonly (readonly [method: string, path: string, handler: Handler])[] = [
  ['POST', '/oauth/token', issueToken],
  ['GET', '/v1/webhooks', listSubscriptions],
  ['POST', '/v1/webhooks', subscribe],
  ['GET', '/v1/webhooks/:id', readSubscription],
  ['DELETE', '/v1/webhooks/:id', unsubscribe],
  ['GET', '/v1/images/:id/file', readFile],
  ['PUT', '/v1/images/:id/file', writeFile],
  ['GET', '/v1/:resource', listRecords],
  ['POST', '/v1/:resource', createRecord],
  ['GET', '/v1/:resource/:id', readRecord],
  ['PUT', '/v1/:resource/:id', replaceRecord],
  ['PATCH', '/v1/:resource/:id', patchRecord],
  ['DELETE', '/v1/:resource/:id', deleteRecord],
];

const METHODS = [...new Set(ROUTES.map(([method]) => method))];

const router = new TrieRouter<Handler>();
for (const [method, path, handler] of ROUTES) router.add(method, path, handler);

export interface Route {
  handler: Handler;
  params: Record<string, string>;
}

/** The endpoint of a request. Throws a Refusal: 404 for no such path, 405 for no such method on it, 400 for bad escapes. */
export function routeOf(method: string, path: string): Route {
  const found = match(method === 'HEAD' ? 'GET' : method, path);
  if (found !== null) return found;
  const allowed = METHODS.filter((other) => match(other, path) !== null);
  if (allowed.length === 0) throw new RefusedRequest(404, `There is nothing at ${path}.`);
  throw new RefusedRequest(405, `${method} is not possible on ${path}.`, { allow: allowed.join(', ') });
}

function match(method: string, path: string): Route | null {
  const [found] = router.match(method, path)[0];
  if (found === undefined) return null;
  const [handler, params] = found;
  return {
    handler,
    params: Object.fromEntries(Object.entries(params).map(([name, text]) => [name, decoded(String(text))])),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RefusedRequest(400, `The path holds a broken escape: ${text.slice(0, 80)}`);
  }
}
