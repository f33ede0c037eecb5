import { describe, expect, it } from 'vitest';
import { visibleText } from '../../src/model/visible-text.ts';
import { config, faultsOf } from './in-folder.ts';

describe('F155 files that are no config', () => {
  const odd: [string, string | Uint8Array, RegExp][] = [
    ['bytes that are no UTF-8', Uint8Array.of(0x61, 0x3a, 0x20, 0xff), /^config.yaml:1:1 {2}expected UTF-8 text$/],
    ['more than a mebibyte', `# ${'x'.repeat(1_100_000)}`, /at most 1 MiB$/],
    ['nesting without end', '['.repeat(50_000), /^config.yaml:\d+:\d+ {2}expected/],
    ['aliases that multiply', bomb(), /^config.yaml:1:1 {2}expected at most 100 values made from aliases$/],
  ];

  it.each(odd)('%s', (_, content, expected) => {
    expect(faultsOf({ 'config.yaml': content }).message).toMatch(expected);
  });

  it('a folder', () => {
    expect(faultsOf({ 'config.yaml/x': '' }).message).toBe('config.yaml:1:1  expected a readable file (EISDIR)');
  });
});

describe('all faults of all files stand in one message', () => {
  it('in the order of files and lines, each once, those of two profiles included', () => {
    const broken = config({ 'level: info': 'level: loud', 'content-service': './a.yaml', '0.9': '9' }).replace(
      '\nlog:',
      '\n  shop: { base_url: nowhere, profile: ./b.yaml, auth: { type: api_key, key: canary-4711 } }\nlog:',
    );
    const { message } = faultsOf({
      'config.yaml': broken,
      'a.yaml': 'extends: content-service\nresources: { content: { histroy: all } }\n',
      'b.yaml': 'extends: ./a.yaml\nversion_prefix: v1\n',
    });
    const heads = message.split('\n').map((line) => line.split(': ')[0]);
    expect(heads).toEqual([
      'config.yaml:7:45  sources.blog.rate.share',
      'config.yaml:9:21  sources.shop.base_url',
      'config.yaml:10:15  log.level',
      'a.yaml:2:25  resources.content.histroy',
      'b.yaml:2:17  version_prefix',
    ]);
  });

  it('a line break or a control character in a value cannot fake a line', () => {
    const { message } = faultsOf({ 'config.yaml': config({ 'level: info': 'level: "x\\ny\\e[2J\\u202e"' }) });
    expect(message.split('\n')).toHaveLength(1);
    expect(visibleText(message)).toBe(message);
  });
});

describe('F215 certificates that would not be checked', () => {
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' };

  it('are refused', () => {
    expect(faultsOf({ 'config.yaml': config() }, env).message).toContain('NODE_TLS_REJECT_UNAUTHORIZED');
  });

  it('are refused together with the faults of the file', () => {
    expect(faultsOf({ 'config.yaml': config({ '0.9': '9' }) }, env).message.split('\n')).toHaveLength(2);
  });
});

function bomb(): string {
  const levels = ['a: &a [x, x, x, x, x, x, x, x, x]'];
  for (const [at, name] of ['b', 'c', 'd', 'e'].entries()) {
    levels.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${'abcd'[at]}`).join(', ')}]`);
  }
  return levels.join('\n');
}
