import { spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { scriptFile, startScript } from '../../support/child-script.ts';
import { SQLITE } from '../../support/databases.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { openSocket } from './raw-socket.ts';
import { receivedSource, send, signed } from './receiver-stage.ts';

const FILLING = new URL('filling-inbox.ts', import.meta.url);
const RECEIVING = new URL('receiving.ts', import.meta.url);

interface Filled {
  sent: number;
  acked: number;
  stored: number;
  lost: string[];
  refused: { status: number; seconds: number }[];
  health: number;
  notes: string[];
  integrity: string;
}

function expectHonest(told: Filled): void {
  expect(told).toMatchObject({ lost: [], integrity: 'ok', health: 200, stored: told.acked });
  expect(new Set(told.refused.map(({ status }) => status))).toEqual(new Set([503]));
  for (const { seconds } of told.refused) expect(seconds).toBeLessThan(2);
  expect(told.acked).toBeGreaterThan(20);
  expect(told.notes[0]).toBe('inbox_refuses');
}

describe('a disk that is full', () => {
  it('F124 F178 T6 is told to senders as 503, never as a 2xx, and taken from again once there is room', (context) => {
    const folder = tempFolder();
    // A mount namespace of its own: the volume is gone with the process.
    const mount = 'mount -t tmpfs -o size=12m tmpfs "$1"';
    if (spawnSync('unshare', ['-m', 'sh', '-c', mount, 'sh', folder]).status !== 0) {
      context.skip('this user may not mount a small volume');
    }
    const command = [`${mount} && "$2" "$3" "$1" "$4" "$5" "$6"`, 'sh', folder, process.execPath, scriptFile(FILLING)];
    const args = [
      '-m',
      'sh',
      '-c',
      ...command,
      '8000000',
      '20',
      JSON.stringify(receivedSource(`sqlite:${folder}/blog.db`)),
    ];
    const { stdout, stderr } = spawnSync('unshare', args, { encoding: 'utf8' });
    expect(stderr).toBe('');
    const told: Filled = JSON.parse(stdout);
    expectHonest(told);
    expect(told.refused.length).toBe(2);
    expect(told.acked).toBe(told.sent - 1 + 20);
    expect(told.notes).toEqual(['inbox_refuses', 'inbox_recovered']);
  });
});

describe('a process that may open no more files', () => {
  it('F153 lives on, and takes deliveries again when some are closed', async () => {
    const source = receivedSource(await SQLITE.address());
    const { child, ready, ended } = startScript(RECEIVING, [JSON.stringify([source])], 'ulimit -n 64; exec');
    const port = Number((await ready).trim());
    const crowd = Array.from({ length: 200 }, () => openSocket(port));
    await delay(500);
    for (const socket of crowd) socket.destroy();
    await delay(200);
    expect((await send(port, signed(source))).status).toBe(202);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });
});
