import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sharedToken, tokenSeal } from '../../../src/http/auth/shared-token.ts';
import type { IssuedToken } from '../../../src/http/auth/token-request.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../sandbox/service/sandbox.ts';
import { openCoordination } from '../../../src/warehouse/databases.ts';
import { asOtherClient, POSTGRES, preparedPostgres } from '../../support/databases.ts';
import { longOrShort, sampled } from '../../support/length.ts';
import { scriptFile } from '../../support/child-script.ts';

const WORKER = new URL('token-worker.ts', import.meta.url);
const LIFETIME_S = longOrShort(4, 2);
const TOKEN_URL = new URL('https://cms.example.com/oauth/token');

/** Real processes that ask the service all the time; what they saw once they are told to end. */
async function workers(count: number, sandbox: Sandbox): Promise<{ end: () => Promise<number[]> }> {
  const address = await preparedPostgres();
  const { clientId, clientSecret } = sandbox.oauth;
  const started = Array.from({ length: count }, () => {
    const child = spawn(process.execPath, [scriptFile(WORKER), address, sandbox.url, clientId, clientSecret]);
    const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    return { child, ended };
  });
  const end = async (): Promise<number[]> => {
    for (const { child } of started) child.stdin.end();
    const all = await Promise.all(started.map(({ ended }) => ended));
    return all.map(([[code], said, errors]) => {
      expect([code, errors]).toEqual([0, '']);
      return Number(said.split('\n').at(-2));
    });
  };
  await expect.poll(() => calls(sandbox).pages, { timeout: 20_000 }).toBeGreaterThan(20 * count);
  return { end };
}

/** What the service was asked for. */
function calls({ requests }: Sandbox): { tokens: number; pages: number; refused: number } {
  const entries = requests.entries();
  const pages = entries.filter(({ resource }) => resource === 'content');
  return {
    tokens: entries.filter(({ path }) => path === '/oauth/token').length,
    pages: pages.length,
    refused: pages.filter(({ status }) => status === 401).length,
  };
}

async function service(options: SandboxOptions): Promise<Sandbox> {
  const sandbox = await startSandbox({
    generate: { content: 10 },
    oneToken: true,
    latency: longOrShort(0, 15),
    ...options,
  });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

describe.skipIf(POSTGRES.missing !== null)('a token that several processes use', () => {
  it.each(sampled([2, 4], 2))(
    'F227 is asked for once in its lifetime by %i processes, though each new one ends the last',
    async (count) => {
      const sandbox = await service({ tokenLifetime: LIFETIME_S });
      const { end } = await workers(count, sandbox);
      const begun = sandbox.requests.entries()[0]?.at ?? 0;
      await sleep(LIFETIME_S * 1_000);
      const asked = await end();
      const { tokens, refused } = calls(sandbox);
      const lasted = (sandbox.requests.entries().at(-1)?.at ?? 0) - begun;
      // It is renewed in the last fifth of its life.
      expect(tokens).toBeLessThanOrEqual(1 + Math.ceil(lasted / (0.8 * LIFETIME_S * 1_000)));
      expect(tokens).toBeGreaterThanOrEqual(2);
      // Each of the three lines of a process may be on its way with the one that has just ended.
      expect(refused).toBeLessThanOrEqual((tokens - 1) * count * 3);
      expect(Math.min(...asked)).toBeGreaterThan(50);
    },
    60_000,
  );

  it('F227 is replaced once where the service has revoked it', async () => {
    const sandbox = await service({});
    const count = longOrShort(4, 2);
    const { end } = await workers(count, sandbox);
    expect(calls(sandbox)).toMatchObject({ tokens: 1, refused: 0 });
    sandbox.oauth.revokeTokens();
    const { pages } = calls(sandbox);
    await expect.poll(() => calls(sandbox).pages, { timeout: 20_000 }).toBeGreaterThan(pages + 100);
    await end();
    expect(calls(sandbox).tokens).toBe(2);
    expect(calls(sandbox).refused).toBeLessThanOrEqual(3 * count);
  }, 60_000);
});

function sealFor(secret = 'canary-client-secret') {
  return tokenSeal(TOKEN_URL.origin, secret, [TOKEN_URL.href, 'client', null]);
}

/** Asks for tokens as a process of its own would, and counts how often the service was asked for one. */
async function asker(
  address: string,
  name: string,
  over: { request?: () => Promise<IssuedToken>; secret?: string } = {},
) {
  const coordination = await openCoordination(address, systemClock);
  if (coordination === null) throw new Error(`${address} has no coordination`);
  onTestFinished(() => coordination.close());
  const seal = sealFor(over.secret);
  const counted = { requests: 0 };
  const next = sharedToken({
    store: coordination,
    seal,
    clock: systemClock,
    lifetime: ({ expiresIn = 0 }) => expiresIn * 1_000,
    request: () => {
      counted.requests += 1;
      return over.request?.() ?? Promise.resolve({ value: `canary-${name}-${counted.requests}`, expiresIn: 60 });
    },
  });
  return { coordination, seal, counted, next: async () => (await next('refetch')).value };
}

describe.skipIf(POSTGRES.missing !== null)('the store of tokens', () => {
  it('gives the next token to all who can no longer use the last', async () => {
    const address = await preparedPostgres();
    const [mine, other] = [await asker(address, 'mine'), await asker(address, 'other')];
    expect(await mine.next()).toBe('canary-mine-1');
    expect(await other.next()).toBe('canary-mine-1');
    expect(await other.next()).toBe('canary-other-1');
    expect(await mine.next()).toBe('canary-other-1');
    expect([mine.counted.requests, other.counted.requests]).toEqual([1, 1]);
  });

  it('holds no token that can be read without the secret', async () => {
    const address = await preparedPostgres();
    const { next, seal } = await asker(address, 'token');
    await next();
    const { rows } = await asOtherClient(address, (client) => client.query('SELECT * FROM content_sync.tokens'));
    const stored = JSON.stringify(rows);
    expect(stored).not.toContain('canary');
    expect(stored).not.toContain(Buffer.from('canary-token-1').toString('base64').slice(0, 12));
    expect(seal.open(rows[0].sealed)).toBe('canary-token-1');
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
    const { version } = await other.coordination.claimToken(other.seal.name, 0, gone);
    expect(await other.coordination.claimToken(other.seal.name, version, gone)).toMatchObject({ isMine: true });
    const before = performance.now();
    expect(await other.next()).toBe('canary-other-2');
    expect(performance.now() - before).toBeGreaterThan(500);
  });

  it('takes no token of one who was overtaken', async () => {
    const address = await preparedPostgres();
    const { coordination } = await asker(address, 'any');
    await coordination.claimToken('name', 0, { owner: 'slow', forMs: 0 });
    expect(await coordination.claimToken('name', 0, { owner: 'quick', forMs: 1_000 })).toMatchObject({ isMine: true });
    expect(await coordination.swapToken('name', 0, { sealed: 'quick', expiresIn: 1_000 })).toBe(true);
    expect(await coordination.swapToken('name', 0, { sealed: 'slow', expiresIn: 1_000 })).toBe(false);
    expect(await coordination.claimToken('name', 0, { owner: 'slow', forMs: 1_000 })).toMatchObject({
      isMine: false,
      version: expect.any(Number),
      sealed: 'quick',
    });
  });
});
