package probe

import "github.com/borescope/borescope/probe/internal/userfile"

// keepFiles leaves the files that the plan's sites are in.
func keepFiles(ids userfile.FileIDs, programs []ProgramPlan) userfile.FileIDs {
	var out userfile.FileIDs
	for i := range programs {
		for j := range programs[i].Sites {
			path := programs[i].Sites[j].Path
			if id, ok := ids[path]; ok {
				if out == nil {
					out = userfile.FileIDs{}
				}
				out[path] = id
			}
		}
	}
	return out
}
