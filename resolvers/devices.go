package resolvers

import (
	"context"
	"crypto/rand"

	"tidemark/chat"
	"tidemark/graph"
	"tidemark/hint"
)

func (m mutation) RegisterInstall(ctx context.Context, in graph.RegisterInstallInput) (*graph.RegisterInstallPayload, error) {
	d, err := deviceOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := chat.CheckID("installId", string(in.InstallID)); err != nil {
		return nil, err
	}
	d, reinstalled, err := m.store.RegisterInstall(ctx, d.ID, string(in.InstallID), d.InstallEpoch)
	if err != nil {
		return nil, err
	}
	return &graph.RegisterInstallPayload{Device: d, Reinstalled: reinstalled}, nil
}

func (m mutation) RevokeDevice(ctx context.Context, in graph.RevokeDeviceInput) (*graph.RevokeDevicePayload, error) {
	var owner *chat.UserID
	if requireService(ctx) != nil {
		d, err := deviceOf(ctx)
		if err != nil {
			return nil, err
		}
		owner = &d.UserID
	}
	id, err := deviceID("deviceId", in.DeviceID)
	if err != nil {
		return nil, err
	}
	user, err := m.store.RevokeDevice(ctx, id, owner)
	if err != nil {
		return nil, err
	}
	m.tell(true, nil, hint.Hint{Reason: hint.Credential, User: user})
	return &graph.RevokeDevicePayload{DeviceID: id}, nil
}

func (m mutation) CreateDevice(ctx context.Context, in graph.CreateDeviceInput) (*graph.CreateDevicePayload, error) {
	user, err := userID("userId", in.UserID)
	if err != nil {
		return nil, err
	}
	name := chat.ID("d-" + rand.Text())
	if in.ID != nil {
		name = *in.ID
	}
	id, err := deviceID("id", name)
	if err != nil {
		return nil, err
	}
	if err := checkOptionalName("name", in.Name); err != nil {
		return nil, err
	}
	d, token, err := m.store.CreateDevice(ctx, user, id, in.Name)
	if err != nil {
		return nil, err
	}
	return &graph.CreateDevicePayload{Device: d, Token: token}, nil
}

func (m mutation) RotateDeviceToken(ctx context.Context, in graph.RotateDeviceTokenInput) (*graph.CreateDevicePayload, error) {
	id, err := deviceID("deviceId", in.DeviceID)
	if err != nil {
		return nil, err
	}
	d, token, err := m.store.RotateToken(ctx, id)
	if err != nil {
		return nil, err
	}
	m.tell(true, nil, hint.Hint{Reason: hint.Credential, User: d.UserID})
	return &graph.CreateDevicePayload{Device: d, Token: token}, nil
}
