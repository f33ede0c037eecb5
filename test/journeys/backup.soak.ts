import { describe, it } from 'vitest';
import { killedBackups, killedRestores, stageWithCopy } from './backup-kills.ts';

describe('a backup that is killed again and again', () => {
  it('is there whole or not at all', async () => killedBackups(await stageWithCopy(), 10));
  it('is restored whole or not at all', async () => killedRestores(await stageWithCopy(), 10));
});
