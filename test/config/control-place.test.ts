import { chmodSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { controlPath } from '../../src/config/settings.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

const POSTGRES = 'postgres://localhost/content';

describe('the path of the control socket', () => {
  it('is beside the warehouse, and another one for each config', () => {
    const cwd = tempFolder();
    const at = (config: string) =>
      controlPath({ control: undefined, warehouse: 'sqlite:data/{source}.db', config, cwd, env: {} });
    const one = at(path.join(cwd, 'one.yaml'));
    expect(path.dirname(one ?? '')).toBe(path.join(cwd, 'data'));
    expect(at(path.join(cwd, 'one.yaml'))).toBe(one);
    expect(at(path.join(cwd, 'two.yaml'))).not.toBe(one);
  });

  it('is beside the config, else in the runtime folder of the user, and never in the folder for temporary files', () => {
    const cwd = tempFolder();
    const env = { XDG_RUNTIME_DIR: '/run/user/1', TMPDIR: tmpdir() };
    const at = (config: string, given: Record<string, string> = env) =>
      controlPath({ control: undefined, warehouse: POSTGRES, config, cwd, env: given });
    expect(path.dirname(at(path.join(cwd, 'one.yaml')) ?? '')).toBe(cwd);
    const missing = path.join(cwd, 'not', 'there', 'one.yaml');
    expect(path.dirname(at(missing) ?? '')).toBe('/run/user/1');
    expect(at(missing, { TMPDIR: tmpdir() })).toBeNull();
    const long = path.join(cwd, 'x'.repeat(100));
    mkdirSync(long);
    expect(path.dirname(at(path.join(long, 'one.yaml')) ?? '')).toBe('/run/user/1');
  });

  it.skipIf(process.getuid?.() === 0)('is not in a folder that this user cannot write to', () => {
    const cwd = tempFolder();
    chmodSync(cwd, 0o500);
    const at = controlPath({
      control: undefined,
      warehouse: POSTGRES,
      config: path.join(cwd, 'one.yaml'),
      cwd,
      env: {},
    });
    expect(at).toBeNull();
  });

  it('is what the settings say', () => {
    const rest = { warehouse: POSTGRES, config: '/one.yaml', cwd: '/srv', env: {} };
    expect(controlPath({ ...rest, control: 'run/own.sock' })).toBe('/srv/run/own.sock');
    expect(controlPath({ ...rest, control: null })).toBeNull();
  });
});
