import { MessageChannel } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ConfigError, SyncError } from '../../../src/model/errors.ts';
import { connect } from '../../../src/web/receiver/calls.ts';

interface Calls {
  fail(kind: 'config' | 'sync' | 'bug'): Promise<void>;
  count(by: number): Promise<number>;
}

const FAILURES: Readonly<Record<Parameters<Calls['fail']>[0], Error>> = {
  config: new ConfigError('address_in_use', 'taken', { hint: 'end it' }),
  sync: new SyncError('warehouse_full', 'full', { recovery: 'retry', hint: 'make room' }),
  bug: new TypeError('a bug'),
};

function connected() {
  const { port1, port2 } = new MessageChannel();
  let sum = 0;
  connect<object, Calls>(port1, {
    fail: (kind) => Promise.reject(FAILURES[kind]),
    count: async (by) => (sum += by),
  });
  onTestFinished(() => port1.close());
  return connect<Calls, object>(port2, {});
}

describe('calls between two threads', () => {
  it('fail with the error of the other thread: its class, code, message and hint', async () => {
    const other = connected();
    const config = await other.fail('config').catch((error: unknown) => error);
    expect(config).toBeInstanceOf(ConfigError);
    expect(config).toMatchObject({ code: 'address_in_use', message: 'taken', hint: 'end it', recovery: 'stop' });
    const sync = await other.fail('sync').catch((error: unknown) => error);
    expect(sync).toBeInstanceOf(SyncError);
    expect(sync).not.toBeInstanceOf(ConfigError);
    expect(sync).toMatchObject({ code: 'warehouse_full', message: 'full', hint: 'make room' });
    await expect(other.fail('bug')).rejects.toMatchObject({ code: 'receiver_failed', message: 'a bug' });
  });

  it('are made in their order, those without an answer among them', async () => {
    const other = connected();
    void other.count.asEvent(1);
    const second = other.count(10);
    void other.count.asEvent(100);
    expect([await second, await other.count(1_000)]).toEqual([11, 1_111]);
  });

  it('all fail when the connection ends, those to come as well', async () => {
    const other = connected();
    const open = other.count(1);
    const gone = new SyncError('receiver_gone', 'gone', { recovery: 'stop' });
    other.$close(gone);
    await expect(open).rejects.toBe(gone);
    await expect(other.count(1)).rejects.toThrow('closed');
  });
});
