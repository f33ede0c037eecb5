import { describe, expect, it } from 'vitest';
import { routeOf } from '../../../src/server/receiver/requests.ts';

describe('the route of a request', () => {
  it.for([
    ['/webhooks/blog', { kind: 'webhook', source: 'blog' }],
    ['/webhooks/blog?hub.mode=subscribe', { kind: 'webhook', source: 'blog' }],
    ['/webhooks/blog/', { kind: 'webhook', source: 'blog' }],
    ['/healthz', { kind: 'health' }],
    ['/healthz?x', { kind: 'health' }],
    ['/', { kind: 'page' }],
    ['/status.json', { kind: 'page' }],
    ['/webhooks', { kind: 'none' }],
    ['/webhooks/Blog', { kind: 'none' }],
    ['/webhooks/blog//', { kind: 'none' }],
    ['/webhooks/%62log', { kind: 'none' }],
    ['//healthz', { kind: 'none' }],
    ['/../metrics', { kind: 'none' }],
    ['/a;b', { kind: 'none' }],
    ['http://other/', { kind: 'none' }],
    ['', { kind: 'none' }],
  ] as const)('%s is %j', ([target, route]) => {
    expect(routeOf(target)).toEqual(route);
  });
});
