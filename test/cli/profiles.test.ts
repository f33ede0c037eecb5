import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { packagedProfiles, readPackagedProfile } from '../../src/config/load-profile.ts';
import { runCommand } from '../support/command.ts';

const run = (...args: string[]) => runCommand(['profiles', ...args], import.meta.dirname);

describe('content-sync profiles', () => {
  it('lists every profile with what it was tried with', async () => {
    const { code, stdout } = await run('list');
    expect(code).toBe(0);
    expect(stdout.trimEnd().split('\n')).toHaveLength(packagedProfiles().length);
    expect(stdout).toMatch(/^content-service +The content service .* tested with its own sandbox +content, images/m);
  });

  it('lists them as JSON', async () => {
    const { stdout } = await run('list', '--json');
    const [first] = stdout.split('\n');
    expect(JSON.parse(first ?? '')).toMatchObject({ profile: packagedProfiles()[0], resources: expect.any(Array) });
  });

  it.for(packagedProfiles())('shows %s as it is', async (name) => {
    const file = new URL(`../../config/profiles/${name}.yaml`, import.meta.url);
    expect(await run('show', name)).toMatchObject({ code: 0, stdout: readFileSync(file, 'utf8') });
  });

  it('says which there are if there is none of that name', async () => {
    const { code, stderr } = await run('show', 'content-servce');
    expect(code).toBe(2);
    expect(stderr).toMatch(/no profile has the name "content-servce".*content-service/s);
  });

  it.for(packagedProfiles())('%s loads, and says what it is', (name) => {
    expect(readPackagedProfile(name).about?.title).toMatch(/\w/);
  });
});
