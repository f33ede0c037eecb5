import type { TestProject } from 'vitest/node';
import { bundledMain } from './bundle.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The file that starts the command line. */
    main: string;
  }
}

/** Tests start the command line hundreds of times: it is bundled once. */
export default async function setup(project: TestProject): Promise<void> {
  project.provide('main', await bundledMain());
}
