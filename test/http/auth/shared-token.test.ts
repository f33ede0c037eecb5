import { describe, expect, it, onTestFinished } from 'vitest';
import { openWarehouse } from '../../../src/database/databases.ts';
import { createTokenStore } from '../../../src/database/state/server-state.ts';
import type { IssuedToken } from '../../../src/http/auth/credentials.ts';
import { sharedToken, tokenSeal } from '../../../src/http/auth/shared-token.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { asOtherClient, POSTGRES, preparedPostgres } from '../../support/databases.ts';

const TOKEN_URL = new URL('https://cms.example.com/oauth/token');

function sealFor(secret = 'canary-client-secret') {
  return tokenSeal(TOKEN_URL.origin, secret, [TOKEN_URL.href, 'client', null]);
}

/** Asks for tokens as a process of its own would, and counts how often the service was asked for one. */
async function asker(
  address: string,
  name: string,
  over: { request?: () => Promise<IssuedToken>; secret?: string } = {},
) {
  const warehouse = await openWarehouse(address, systemClock);
  onTestFinished(() => warehouse.close());
  const store = createTokenStore(warehouse);
  const seal = sealFor(over.secret);
  const counted = { requests: 0 };
  const next = sharedToken({
    store,
    seal,
    clock: systemClock,
    request: () => {
      counted.requests += 1;
      return over.request?.() ?? Promise.resolve({ value: `canary-${name}-${counted.requests}`, expiresIn: 60 });
    },
  });
  return { store, seal, counted, next: async () => (await next('refetch')).value };
}

describe.skipIf(POSTGRES.missing !== null)('the store of tokens', () => {
  it('holds no token that can be read without the secret', async () => {
    const address = await preparedPostgres();
    const { next, seal } = await asker(address, 'token');
    await next();
    const { rows } = await asOtherClient(address, (client) => client.query('SELECT * FROM _sync_tokens'));
    const stored = JSON.stringify(rows);
    expect(stored).not.toContain('canary');
    expect(stored).not.toContain(Buffer.from('canary-token-1').toString('base64').slice(0, 12));
    expect(seal.open(rows[0].sealed)).toContain('canary-token-1');
    expect(sealFor('another').open(rows[0].sealed)).toBeNull();
    expect(seal.open(`${rows[0].sealed.slice(0, -4)}AAAA`)).toBeNull();
    expect(seal.open('')).toBeNull();
  });

  it('keeps those of another secret apart', async () => {
    const address = await preparedPostgres();
    const [old, rotated] = [await asker(address, 'old'), await asker(address, 'new', { secret: 'rotated' })];
    await old.next();
    await rotated.next();
    await old.next();
    expect([old.counted.requests, rotated.counted.requests]).toEqual([2, 1]);
  });

  it('has one who asks at a time, and the next where that one fails or is gone', async () => {
    const address = await preparedPostgres();
    const failing = await asker(address, 'failing', { request: () => Promise.reject(new Error('no token today')) });
    const other = await asker(address, 'other');
    await expect(failing.next()).rejects.toThrow('no token today');
    expect(await other.next()).toBe('canary-other-1');
    const gone = { owner: 'gone', forMs: 700 };
    const { version } = await other.store.claimToken(other.seal.name, 0, gone);
    expect(await other.store.claimToken(other.seal.name, version, gone)).toMatchObject({ isMine: true });
    const before = performance.now();
    expect(await other.next()).toBe('canary-other-2');
    expect(performance.now() - before).toBeGreaterThan(500);
  });

  it('takes no token of one who was overtaken', async () => {
    const address = await preparedPostgres();
    const { store } = await asker(address, 'any');
    await store.claimToken('name', 0, { owner: 'slow', forMs: 0 });
    expect(await store.claimToken('name', 0, { owner: 'quick', forMs: 1_000 })).toMatchObject({ isMine: true });
    expect(await store.swapToken('name', 0, { sealed: 'quick', expiresIn: 1_000 })).toBe(true);
    expect(await store.swapToken('name', 0, { sealed: 'slow', expiresIn: 1_000 })).toBe(false);
    expect(await store.claimToken('name', 0, { owner: 'slow', forMs: 1_000 })).toMatchObject({
      isMine: false,
      version: expect.any(Number),
      sealed: 'quick',
    });
  });
});
