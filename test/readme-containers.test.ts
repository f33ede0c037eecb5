import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { packageRoot } from '../src/config/load-profile.ts';
import { codeBlocks, readPage } from './support/readme.ts';

const readme = readPage();

/** Every container that the README starts, a line each. */
function started(): string[] {
  const lines = codeBlocks(readme.text, 'sh').join('\n').replaceAll('\\\n', ' ').split('\n');
  return lines.filter((line) => line.startsWith('docker run '));
}

describe('the containers of the README', () => {
  it('F219 are reached from this machine alone, hold no rights that they do not need, and are bounded', () => {
    expect(started()).toHaveLength(1);
    for (const line of started()) {
      expect(line).toContain(' --read-only ');
      expect(line).toContain(' --cap-drop ALL ');
      expect(line).toContain(' --security-opt no-new-privileges ');
      expect(line).toMatch(/ --memory \d+[mg] /);
      expect(line).toMatch(/ --pids-limit \d+ /);
      const published = [...line.matchAll(/ -p (\S+)/g)].map(([, port]) => port);
      expect(published.filter((port) => port?.startsWith('127.0.0.1:') !== true)).toEqual([]);
      expect(line).not.toMatch(/--privileged|--cap-add|--network host|docker\.sock/);
    }
  });

  it('on Kubernetes too, where the volume is writable by the group of who runs there', () => {
    const file = path.join(packageRoot(), 'config/deploy/deployment/kubernetes/cronjob.yaml');
    const job = parseAllDocuments(readFileSync(file, 'utf8')).at(-1)?.toJS();
    const pod = job.spec.jobTemplate.spec.template.spec;
    const user = pod.securityContext.runAsUser;
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        runAsGroup: user,
        fsGroup: user,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    });
    expect(user).toBeGreaterThan(0);
    expect(pod.containers).toHaveLength(1);
    expect(pod.containers[0]).toMatchObject({
      securityContext: {
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      },
      resources: { limits: { memory: expect.stringMatching(/^\d+[MG]i$/) } },
    });
  });
});
