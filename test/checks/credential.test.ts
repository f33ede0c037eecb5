import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { runInProcess } from '../cli/in-process.ts';
import { eitherDatabase } from '../support/databases.ts';
import type { Behaviour } from '../support/small-service.ts';
import { smallStage, type SmallStage } from '../support/small-stage.ts';

const KEY = { auth: { type: 'api_key', key: 'the-1-true-key' } };
const isOwn = (authorization: string | undefined): boolean => authorization === 'Bearer the-1-true-key';

/** As some services do: whoever is not known sees what is public. */
const LENIENT: Behaviour = { sees: (authorization, { id }) => isOwn(authorization) || !id.startsWith('draft') };
const STRICT: Behaviour = { sees: (authorization) => (isOwn(authorization) ? true : null) };

async function stageWith(behaviour: Behaviour, top: Record<string, unknown> = {}, key = KEY): Promise<SmallStage> {
  const stage = await smallStage(behaviour, {}, { source: key, top });
  for (const id of ['a', 'b', 'c', 'draft1', 'draft2']) {
    stage.service.put(id);
    stage.service.now += 60_000;
  }
  return stage;
}

async function checked(stage: SmallStage) {
  return runInProcess(checkCommand, ['--config', stage.config], stage.folder);
}

describe('check of the credential', () => {
  it('is content if the service refuses whoever it does not know', async () => {
    const { code, stdout } = await checked(await stageWith(STRICT));
    expect([code, stdout]).toEqual([0, expect.stringMatching(/ok {4}content credential: .*all is refused/)]);
  });

  it.each<[what: string, behaviour: Behaviour, finding: RegExp]>([
    [
      'answers a false credential as it answers anybody',
      LENIENT,
      /warn {2}content credential: a false credential is not refused: it gets 3 records, the own one 5/,
    ],
    [
      'lists the same to anybody',
      {},
      /warn {2}content credential: without a credential, and with a false one, .* same/,
    ],
    [
      'does not look at the credential',
      { sees: (authorization) => (authorization === undefined ? null : true) },
      /warn {2}content credential: a false credential gets the same as the own one/,
    ],
  ])('warns where the service %s, and names what would prove it', async (_, behaviour, finding) => {
    const stage = await stageWith(behaviour);
    const { code, stdout } = await checked(stage);
    expect([code, stdout]).toEqual([0, expect.stringMatching(finding)]);
    expect(stdout).toMatch(/identity: \/users\/me/);
    // A false credential has nothing of the true one.
    expect(stdout).not.toContain('true');
  });

  it('is content with such a service if the identity path answers this credential only', async () => {
    const behaviour = { ...LENIENT, identity: (authorization?: string) => (isOwn(authorization) ? 200 : 401) };
    const { code, stdout } = await checked(await stageWith(behaviour, { identity: '/me' }));
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/ok {4}service identity: \/me answers this credential only/),
    ]);
    expect(stdout).toMatch(/ok {4}content credential: .*the identity path proves it/);
  });

  it('fails if the identity path answers a false credential too, or refuses the own one', async () => {
    const open = await checked(await stageWith(LENIENT, { identity: '/me' }));
    expect([open.code, open.stdout]).toEqual([
      1,
      expect.stringMatching(/FAIL {2}service identity: .*false credential/),
    ]);
    const closed = await checked(await stageWith({ ...LENIENT, identity: () => 403 }, { identity: '/me' }));
    expect([closed.code, closed.stdout]).toEqual([1, expect.stringMatching(/FAIL {2}service identity: .*403/)]);
  });
});

describe.for(eitherDatabase(import.meta.filename))('a profile that names an identity path, on $name', (database) => {
  it('walks nothing if the service does not know who is asking, and says so', async () => {
    const top = { identity: '/me' };
    const stage = await smallStage({ ...LENIENT, identity: () => 200 }, {}, { database, source: KEY, top });
    stage.service.put('a');
    stage.service.put('draft1');
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 2 });
    for (const status of [401, 403, 404]) {
      stage.service.behaviour = { ...LENIENT, sees: (_, { id }) => id === 'a', identity: () => status };
      const report = await stage.walk('backfill');
      expect(report).toMatchObject({ status: 'failed', error: { code: 'auth_failed' } });
      expect(report.error?.message).toContain(String(status));
      expect(report.asked).toEqual(['/v1/me']);
    }
    stage.service.behaviour = LENIENT;
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', unchanged: 2, deleted: 0 });
  });
});
