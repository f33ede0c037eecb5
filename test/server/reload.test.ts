import { describe, expect, it } from 'vitest';
import { createReloader, type SettingsChange } from '../../src/server/reload.ts';
import { createLog } from '../../src/observe/log.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { Settings } from '../../src/config/settings.ts';
import { collector } from '../support/collector.ts';
import { inFolder } from '../config/in-folder.ts';

const BLOG =
  'base_url: http://localhost:1\nauth: { type: api_key, key: a-key-of-this-test }\nprofile: content-service\n';
const WEBHOOK = 'webhook: { secrets: [whsec_Y29udGVudC1zeW5jLWNvbnRlbnQtc3luYw==] }\n';
const PLACE = 'warehouse: sqlite:{source}.db\nsources: ./sources\n';

/** A config with a file per source. */
const files = (sources: Readonly<Record<string, string>>, place = PLACE): Record<string, string> => ({
  'c.yaml': place,
  ...Object.fromEntries(Object.entries(sources).map(([name, text]) => [`sources/${name}.yaml`, text])),
});

const read = (sources: Readonly<Record<string, string>>, place?: string): Settings => {
  const read: { settings?: Settings } = {};
  // Each reading has a folder of its own, where warehouse and control socket would be others.
  inFolder(files(sources, place), (cwd) => {
    const settings = loadSettings({ path: 'c.yaml', env: {}, cwd });
    const moved = Object.entries(settings.sources).map(([name, source]) => [
      name,
      { ...source, warehouse: 'sqlite:/w.db' },
    ]);
    read.settings = { ...settings, control: null, sources: Object.fromEntries(moved) };
  });
  if (read.settings === undefined) throw new Error('nothing was read');
  return read.settings;
};

/** What a reload answers and does for these two readings. */
async function reloaded(before: Settings, after: Settings) {
  const applied: SettingsChange[] = [];
  const log = createLog({ level: 'info', secrets: [], destination: collector() });
  const apply = async (change: SettingsChange): Promise<void> => void applied.push(change);
  const reloader = createReloader({ settings: before, load: () => after, apply, clock: systemClock, log });
  const { message } = await reloader.reload({ via: 'signal', by: null });
  return { message, change: applied[0] };
}

describe('what differs between two readings of the settings', () => {
  it('is nothing where nothing was changed: profiles, secrets and all', async () => {
    const same = { blog: BLOG + WEBHOOK, docs: BLOG.replace('content-service', 'content-service-page') };
    const { message, change } = await reloaded(read(same), read(same));
    expect(change).toEqual({ added: [], removed: [], changed: [], unchanged: ['blog', 'docs'], others: [] });
    expect(message).toBe('the settings were read again: nothing has changed');
  });

  it('is told by source and by setting', async () => {
    const secret = WEBHOOK.replace('Y29u', 'Z29u');
    const before = read({ blog: BLOG + WEBHOOK, gone: BLOG, docs: BLOG, same: BLOG });
    const after = read(
      { blog: BLOG + secret, docs: `${BLOG}schedule: { jitter: 5s }\n`, same: BLOG, fresh: BLOG },
      `${PLACE}serve: { port: 9999, auth: { user: me, password: a-long-password } }\nlog: { level: debug }\n`,
    );
    expect((await reloaded(before, after)).message).toBe(
      'the settings were read again: fresh was added; gone was taken out; blog has changed (webhook); docs has changed (schedule); serve.port changes with the next start; serve.auth has changed; log has changed; unchanged: same',
    );
  });
});

describe('a reading of the settings', () => {
  it('leaves a source as it runs whose own file is at fault, and takes the others; the next good one takes it too', async () => {
    const applied: [SettingsChange, Settings][] = [];
    const log = createLog({ level: 'info', secrets: [], destination: collector() });
    const start = read({ blog: BLOG, docs: BLOG });
    let next: () => Settings = () => start;
    const apply = async (change: SettingsChange, settings: Settings): Promise<void> =>
      void applied.push([change, settings]);
    const reloader = createReloader({ settings: start, load: () => next(), apply, clock: systemClock, log });
    const by = { via: 'signal', by: null } as const;

    next = () => read({ blog: `${BLOG}shedule: {}\n`, docs: `${BLOG}max_wait: 7m\n` });
    const answer = await reloader.reload(by);
    expect(answer).toMatchObject({
      done: false,
      message: expect.stringMatching(/docs has changed[^]*blog\.yaml:4:1 {2}shedule/),
    });
    expect(applied[0]?.[0]).toMatchObject({ unchanged: ['blog'], changed: [{ fields: ['max_wait'] }], removed: [] });
    expect(applied[0]?.[1].sources['blog']).toBe(start.sources['blog']);
    expect(reloader.refused()).toMatchObject({ code: 'settings_invalid' });

    next = () => read({ blog: BLOG, docs: BLOG }, 'warehouse: nowhere:x\nsources: ./sources\n');
    expect(await reloader.reload(by)).toMatchObject({ done: false, message: expect.stringContaining('c.yaml:1:') });
    expect(applied).toHaveLength(1);

    next = () => read({ blog: `${BLOG}max_wait: 8m\n`, docs: `${BLOG}max_wait: 7m\n` });
    // Asked twice at once: the second reading finds what the first one left.
    const both = await Promise.all([reloader.reload(by), reloader.reload(by)]);
    expect(both.map(({ done }) => done)).toEqual([true, true]);
    expect(reloader.refused()).toBe(null);
    expect(applied[1]?.[0].changed.map(({ source }) => source.name)).toEqual(['blog']);
  });
});
