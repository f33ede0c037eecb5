import { describe, expect, it } from 'vitest';
import { serveRotating } from '../http/auth/rotating-service.ts';
import { eitherDatabase, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { json, serve } from '../http/stage.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { longOrShort, sampled } from '../support/length.ts';

const EITHER = eitherDatabase(import.meta.filename);

const RESOURCES = { images: null, analytics: null, content: { incremental: null, item: null, updated: null } };

async function stageFor(origin: string, database = SQLITE, refresh_token = 'refresh-0'): Promise<Journey> {
  return journey({
    database,
    profile: { auth: { type: 'oauth', grant: 'refresh_token', client_auth: 'none' }, resources: RESOURCES },
    source: { base_url: origin, auth: { type: 'oauth', client_id: 'app', refresh_token } },
  });
}

describe.each(EITHER)('a refresh token that is replaced with each use, on $name', (database) => {
  it('is used by check before there is a warehouse, by runs after it, and told once when it is over', async () => {
    const service = await serveRotating({ grace: false, lifetime: 1 });
    const stage = await stageFor(service.origin, database);
    expect((await stage.command('check')).stdout).toMatch(/ok +content credential/);
    for (const command of ['backfill', 'sync', 'check']) {
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      expect((await stage.command(command)).code).toBe(0);
    }
    const { asked, refused } = service.tokens();
    expect([asked >= 4, refused]).toEqual([true, 0]);
    const stored = await stage.read((db) => db.prepare('SELECT * FROM _sync_tokens').all());
    expect(stored).toHaveLength(1);
    expect(JSON.stringify(stored)).not.toMatch(/refresh-|access-/);
    service.revoke();
    for (const command of ['backfill', 'sync', 'backfill']) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      const { code, stdout, stderr } = await stage.command(command);
      expect([code, stdout + stderr]).toEqual([1, expect.stringContaining('refused the refresh token')]);
    }
    expect(service.tokens()).toEqual({ asked: asked + 1, refused: 1 });
  }, 60_000);
});

it('a new refresh token in the settings ends the alarm', async () => {
  const service = await serveRotating({ grace: false });
  const stage = await stageFor(service.origin, SQLITE, 'refresh-of-yesterday');
  expect((await stage.command('backfill')).code).toBe(1);
  stage.setSource({ base_url: service.origin, auth: { type: 'oauth', client_id: 'app', refresh_token: 'refresh-0' } });
  expect((await stage.command('backfill')).code).toBe(0);
  expect(service.tokens()).toEqual({ asked: 2, refused: 1 });
}, 60_000);

it('a service without any credential is checked and copied with no word of one', async () => {
  const { origin, seen } = await serve((_, response) => json(response, { data: [{ id: 'a' }], next_cursor: null }));
  const stage = await journey({
    profile: { auth: { type: 'none' }, resources: RESOURCES },
    source: { base_url: origin, auth: undefined },
  });
  const { code, stdout } = await stage.command('check');
  expect([code, stdout]).toEqual([0, expect.not.stringContaining('credential')]);
  expect((await stage.command('backfill')).code).toBe(0);
  expect(seen.every(({ headers }) => headers.authorization === undefined)).toBe(true);
}, 60_000);

const PAGE_MS = longOrShort(25, 75);

/** A service whose tokens end, and are gone with the end of a whole second where they are `floored`. */
async function serveGated(pages: number, lifetime: number, floored: boolean) {
  const counted = { issued: 0, refused: 0 };
  const ends = new Map<string, number>();
  const records = Array.from({ length: pages * 2 }, (_, at) => ({
    id: String(at),
    updated_at: '2026-01-01T00:00:00Z',
  }));

  function token(response: ServerResponse): void {
    counted.issued += 1;
    const end = Date.now() + lifetime * 1_000;
    ends.set(`token-${counted.issued}`, floored ? Math.floor(end / 1_000) * 1_000 : end);
    json(response, { access_token: `token-${counted.issued}`, token_type: 'Bearer', expires_in: lifetime });
  }
  async function page(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = request.headers.authorization?.slice('Bearer '.length) ?? '';
    if ((ends.get(sent) ?? 0) <= Date.now()) {
      counted.refused += 1;
      return json(response, { error: 'invalid_token' }, 401, { 'www-authenticate': 'Bearer error="invalid_token"' });
    }
    await sleep(PAGE_MS);
    const from = Number(new URL(request.url ?? '', 'http://x').searchParams.get('cursor') ?? 0);
    const next = from + 2 < records.length ? String(from + 2) : null;
    json(response, { data: records.slice(from, from + 2), next_cursor: next });
  }
  const service = await serve((request, response) => {
    if (request.url === '/oauth/token') token(response);
    else void page(request, response);
  });
  return { ...service, counted, records };
}

describe('tokens that hold for less than a backfill takes', () => {
  it.each(
    sampled(
      [
        { lifetime: 1, floored: false },
        { lifetime: 2, floored: true },
        { lifetime: 5, floored: false },
        { lifetime: 5, floored: true },
        { lifetime: 1, floored: true },
      ],
      3,
    ),
  )(
    'for $lifetime s (floored: $floored): no error, and at most one wasted request per renewal',
    async (given) => {
      const { lifetime, floored } = given;
      const pages = Math.ceil((longOrShort(20, lifetime < 3 ? 3 : 6) * 1_000) / PAGE_MS);
      const service = await serveGated(pages, lifetime, floored);
      const stage = await journey({
        profile: {
          auth: { type: 'oauth' },
          resources: {
            content: { page: { style: 'cursor', size: 2 }, incremental: null, item: null },
            images: null,
            analytics: null,
          },
        },
        source: { base_url: service.origin, auth: { type: 'oauth', client_id: 'a', client_secret: 'a-long-secret' } },
      });
      const { code, stderr } = await stage.command('backfill');
      expect([code, stderr]).toEqual([0, expect.not.stringMatching(/401|token/)]);
      const copied = await stage.read((db) => db.prepare('SELECT id FROM content ORDER BY id').pluck().all());
      expect(copied).toEqual(service.records.map(({ id }) => id).toSorted());
      const { issued, refused } = service.counted;
      expect(issued).toBeGreaterThan(1);
      expect(refused).toBeLessThanOrEqual(issued);
    },
    120_000,
  );
});
