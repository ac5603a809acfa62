package author

import (
	"testing"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func TestServesWhatItReplaces(t *testing.T) {
	replaced, own := model.ID{Domain: "example", Name: "old"}, model.ID{Domain: "example", Name: "new"}
	c := &model.Collection{Domain: own.Domain, Name: own.Name}
	if !Serves(c, own) || Serves(c, replaced) || Serves(c, model.ID{}) {
		t.Error("without replaces: want its own resources alone")
	}
	if c.Replaces = replaced; !Serves(c, own) || !Serves(c, replaced) {
		t.Error("with replaces: want those of both")
	}
}
