import { expect, it } from 'vitest';
import { servingStage } from '../../support/serving.ts';

it('shows a run as `runs show` does: its records, requests, warnings and error, and links to it from the tables of runs', async () => {
  const stage = await servingStage({ sandbox: { generate: { content: 5, images: 1, analytics: 1 } } });
  expect((await stage.run('sync')).code).toBe(0);
  // A run that fails, with a hint.
  stage.sandbox.changeKey('another');
  expect((await stage.run('sync', 'content')).code).not.toBe(0);
  const runs: { runs: { run_id: string; status: string }[] } = JSON.parse((await stage.run('runs', '--json')).stdout);
  const ids = [...new Set(runs.runs.map(({ run_id }) => run_id))];
  expect(ids).toHaveLength(2);
  const serving = await stage.serve({ isInside: true });
  const overview = await serving.page('/');
  for (const id of ids) {
    expect(overview.body).toContain(`href="sources/blog/runs/${id}"`);
    const { status, body } = await serving.page(`/sources/blog/runs/${id}`);
    expect(status).toBe(200);
    const text = body.replaceAll(/<br>/g, '\n').replaceAll(/<[^>]*>/g, '');
    const shown = (await stage.run('runs', 'show', id)).stdout;
    const lines = shown.split('\n').flatMap((line) => /^ {2}.{12}(.+)$/.exec(line)?.[1] ?? []);
    expect(lines.length).toBeGreaterThanOrEqual(3);
    for (const line of lines) expect(text).toContain(line.replaceAll('&', '&amp;').replaceAll('"', '&quot;'));
  }
  const failed = runs.runs.find(({ status }) => status === 'failed')?.run_id ?? 'none';
  expect((await serving.page(`/sources/blog/runs/${failed}`)).body).toContain('<th scope="row">error</th>');
  expect((await serving.page('/sources/blog/runs/20260101T000000Z-00000000')).status).toBe(404);
  expect((await serving.page('/sources/blog/runs/nonsense')).status).toBe(404);
  await serving.stop();
});
