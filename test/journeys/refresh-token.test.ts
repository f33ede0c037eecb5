import { describe, expect, it } from 'vitest';
import { serveRotating } from '../http/auth/rotating-service.ts';
import { eitherDatabase, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';

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
  it('is used by check before there is a warehouse, by runs after it, and each run says when it is over', async () => {
    const service = await serveRotating({ grace: false, lifetime: 1 });
    const stage = await stageFor(service.origin, database);
    expect((await stage.command('check')).stdout).toMatch(/ok +content credential/);
    for (const command of ['backfill', 'check']) {
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      expect((await stage.command(command)).code).toBe(0);
    }
    const { asked, refused } = service.tokens();
    expect([asked >= 3, refused]).toEqual([true, 0]);
    const stored = await stage.all('SELECT * FROM _sync_tokens');
    expect(stored).toHaveLength(1);
    expect(JSON.stringify(stored)).not.toMatch(/refresh-|access-/);
    service.revoke();
    for (const command of ['backfill', 'sync']) {
      const { code, stdout, stderr } = await stage.command(command);
      expect([code, stdout + stderr]).toEqual([1, expect.stringContaining('refused the refresh token')]);
    }
    expect(service.tokens()).toEqual({ asked: asked + 2, refused: 2 });
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
