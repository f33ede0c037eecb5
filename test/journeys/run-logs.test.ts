import { expect, it } from 'vitest';
import { z } from 'zod';
import { USUAL } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const line = z.looseObject({ msg: z.string(), run_id: z.string().optional(), resource: z.string().optional() });

it('every line of a run names it and its resource, those of its requests and retries too; an error has one form', async () => {
  let [asked, down] = [0, 1];
  const stage = await ownService(USUAL, {}, () => {
    asked += 1;
    const body = { data: [{ id: `${asked}` }], next_cursor: asked > 2 ? null : 'more' };
    return asked % 2 === down ? { status: 503, headers: { 'x-request-id': 'req-8' } } : { body };
  });
  const { code, stderr } = await stage.command('backfill', '--log-level', 'debug');
  expect(code).toBe(0);
  const lines = stderr
    .trim()
    .split('\n')
    .map((text) => line.parse(JSON.parse(text)));
  const runs = await stage.read((db) => db.prepare('SELECT run_id FROM _sync_runs').pluck().all());
  expect(new Set(lines.map(({ run_id, resource }) => `${run_id} ${resource}`))).toEqual(
    new Set([`${String(runs[0])} report`]),
  );
  expect(lines.filter(({ msg }) => msg === 'request').length).toBe(asked);
  const retry = lines.find(({ msg }) => msg.startsWith('retry'));
  expect(retry).toMatchObject({
    retry: 1,
    of: 5,
    reason: 'answered 503',
    request_id: 'req-8',
    code: 'service_error',
  });
  expect(retry?.msg).toMatch(/^retry 1 of 5 in 0\.\d s: answered 503$/);

  down = -1;
  stage.setSource({ base_url: 'http://127.0.0.1:9' });
  stage.setProfile({
    http: { attempts: 2 },
    resources: { content: null, images: null, analytics: null, report: { path: '/report', page: { style: 'cursor' } } },
  });
  const failed = await stage.command('sync', '--json', '--log-level', 'info');
  expect(failed.code).toBe(1);
  const said = failed.stderr
    .trim()
    .split('\n')
    .map((text) => line.parse(JSON.parse(text)));
  expect(said.map(({ msg }) => msg)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^retry 1 of 1 in 0\.\d s: ECONNREFUSED$/), 'walk failed']),
  );
  const error = { code: 'unreachable', message: expect.any(String), hint: expect.any(String) };
  expect(said.at(-1)).toMatchObject({ msg: 'walk failed', error });
  expect(JSON.parse(failed.stdout).resources[0].error).toEqual(said.at(-1)?.['error']);

  const refused = await stage.command('sync', 'nothing', '--json');
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(JSON.parse(refused.stderr)).toMatchObject({ level: 'error', error: { code: 'usage', hint: 'it has report' } });
});
