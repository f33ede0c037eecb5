import { readFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { spawnCommand } from '../support/command.ts';
import { freePort, servingStage, until } from '../support/serving.ts';

const CANARY = 'canary-4711-of-the-environment';
const FEW = { generate: { content: 1, images: 1, analytics: 1 } };
describe('what Node writes by itself', { timeout: 120_000 }, () => {
  it('holds nothing of the environment in a report on a signal', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const { folder } = stage;
    const port = await freePort();
    const flags = [
      '--report-on-signal',
      '--report-exclude-network',
      '--report-on-fatalerror',
      '--report-signal=SIGUSR2',
      `--report-directory=${folder}`,
    ];
    const command = spawnCommand(
      ['serve', '--port', String(port), '--config', path.join(folder, 'content-sync.yaml')],
      { cwd: folder, env: { OF_THE_ENVIRONMENT: CANARY, NODE_OPTIONS: flags.join(' ') } },
    );
    const reports = (): string[] => readdirSync(folder).filter((name) => name.startsWith('report'));
    await until('listening', () => command.logged().includes('"msg":"listening"') || command.logged());
    // From before its first line had run.
    for (const name of reports()) rmSync(path.join(folder, name));
    command.kill('SIGUSR2');
    await until('reported on a signal', () => reports().some((name) => name.startsWith('report.')));
    command.kill('SIGTERM');
    expect(await command.ended).toMatchObject({ code: 0 });
    const texts = reports().map((name) => readFileSync(path.join(folder, name), 'utf8'));
    expect(texts.filter((text) => text.includes('"javascriptHeap"'))).toHaveLength(texts.length);
    expect(texts.filter((text) => text.includes(CANARY))).toEqual([]);
  });
});
